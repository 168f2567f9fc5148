// The pictures of the next question: dropped, pasted or picked.

import { element, showPicture } from "./elements.js";

const READABLE = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MOST_MEGABYTES = 20;

const list = document.getElementById("pictures");
let pictures = [];

/** The pictures, which then belong to a question. */
export function takePictures() {
  const taken = pictures;
  setPictures([]);
  return taken;
}

export function setPictures(chosen) {
  pictures = chosen;
  list.replaceChildren(...pictures.map(row));
}

/** Adds files; returns a sentence for each that is no readable picture. */
export async function addFiles(files) {
  const refused = files.map(problem).filter(Boolean);
  const readable = files.filter((file) => !problem(file));
  const added = await Promise.all(readable.map(read));
  setPictures([...pictures, ...added]);
  return refused;
}

function problem({ name, type, size }) {
  if (!READABLE.includes(type)) {
    return `${name} is no PNG, JPEG, WebP or GIF: convert it, or take a screenshot.`;
  }
  const megabytes = size / 2 ** 20;
  return megabytes > MOST_MEGABYTES &&
    `${name} has ${megabytes.toFixed(0)} MB: at most ${MOST_MEGABYTES} are read.`;
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ name: file.name, size: file.size, url: reader.result });
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function row(picture) {
  const item = showPicture(picture);
  const size = `${Math.max(1, Math.round(picture.size / 1000))} kB`;
  const remove = element("button", "", "Remove", {
    type: "button",
    "aria-label": `Remove ${picture.name}`,
  });
  remove.onclick = () => {
    setPictures(pictures.filter((other) => other !== picture));
    (list.querySelector("button") ?? document.getElementById("files")).focus();
  };
  item.append(element("span", "", `${picture.name} ${size}`), remove);
  return item;
}
