// The pictures of the next question: dropped, pasted or picked.

import { element, showPicture } from "./elements.js";

const READABLE = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MOST_SIDE = 2048; // pixels; larger pictures are scaled, as models do anyway
const MOST_BYTES = 4e6;

const list = document.getElementById("pictures");
let pictures = [];

/** The pictures, which then belong to a question. */
export function takePictures() {
  const all = pictures;
  setPictures([]);
  return all;
}

export function setPictures(newPictures) {
  pictures = newPictures;
  list.replaceChildren(...pictures.map(row));
}

/** Adds files; returns a sentence for each that is no readable picture. */
export async function addFiles(files) {
  const results = await Promise.allSettled(files.map(picture));
  setPictures([...pictures, ...results.filter(({ value }) => value).map(({ value }) => value)]);
  return results.filter(({ reason }) => reason).map(({ reason }) => reason.message);
}

/** A file as a picture, scaled if it is large; throws a sentence with the file's name. */
async function picture(file) {
  const image = await createImageBitmap(file).catch(() => { throw new Error(problem(file)); });
  const share = Math.min(1, MOST_SIDE / Math.max(image.width, image.height));
  const fits = READABLE.includes(file.type) && share === 1 && file.size <= MOST_BYTES;
  const content = fits ? file : await rescale(image, share, file.type);
  const size = share === 1 ? "" : `${image.width} × ${image.height} scaled to ${MOST_SIDE}, `;
  image.close();
  const kilobytes = Math.max(1, Math.round(content.size / 1000));
  return { name: file.name, about: `${size}${kilobytes} kB`, url: await dataUrl(content) };
}

function problem({ name, type }) {
  if (READABLE.includes(type)) {
    return `${name} is damaged or empty: open it in another program and save it again.`;
  }
  return type.startsWith("image/")
    ? `${name} is of a kind that this browser cannot open: save it as JPEG or PNG.`
    : `${name} is no picture: drop a PNG, JPEG, WebP or GIF, or paste a screenshot.`;
}

async function rescale(image, share, type) {
  const canvas = element("canvas");
  canvas.width = Math.round(image.width * share);
  canvas.height = Math.round(image.height * share);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white"; // where it is transparent, as the server has it
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const encode = (kind) => new Promise((resolve) => canvas.toBlob(resolve, kind, 0.95));
  const exact = type === "image/png" ? await encode("image/png") : null;
  return exact && exact.size <= MOST_BYTES ? exact : encode("image/jpeg");
}

function dataUrl(content) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(content);
  });
}

function row(picture) {
  const item = showPicture(picture);
  const remove = element("button", "", "Remove", {
    type: "button",
    "aria-label": `Remove ${picture.name}`,
  });
  remove.onclick = () => {
    setPictures(pictures.filter((other) => other !== picture));
    (list.querySelector("button") ?? document.getElementById("files")).focus();
  };
  item.append(element("span", "", `${picture.name} ${picture.about}`), remove);
  return item;
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** Gives files that are pasted, or dropped anywhere on the page, to `add`. */
export function onFiles(add) {
  document.onpaste = (event) => {
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData("text/plain").trim();
    // Office programs copy a text and its picture; file managers a file and its name.
    const isText = text && text !== files.map(({ name }) => name).join("\n");
    if (isText || !files.length) return;
    event.preventDefault();
    add(files);
  };
  document.ondragover = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.dataset.drop = "";
  };
  document.ondragleave = (event) => {
    if (!event.relatedTarget) delete document.body.dataset.drop;
  };
  document.ondrop = (event) => {
    delete document.body.dataset.drop;
    if (!hasFiles(event)) return;
    event.preventDefault();
    add(event.dataTransfer.files);
  };
}
