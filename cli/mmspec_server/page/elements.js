// Builds what the page shows. Text of the model and of files is set as text, never as HTML.

export function element(tag, className = "", text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Control characters as the symbols that Unicode has for them, because browsers show nothing. */
function visible(text) {
  return text.replace(/[\0-\x08\x0b-\x1f\x7f]/g, (character) =>
    String.fromCharCode(character === "\x7f" ? 0x2421 : 0x2400 + character.charCodeAt(0)));
}

/** Adds text to an answer, tinted if it was drafted, but for the spaces before it. */
export function addText(answer, { text, drafted }) {
  const tinted = answer.lastElementChild?.className === "drafted";
  const spaces = drafted && !tinted ? text.match(/^\s*/)[0] : "";
  addRun(answer, spaces, "");
  addRun(answer, text.slice(spaces.length), drafted ? "drafted" : "");
}

/** Adds text to the last element if that has the same class. */
function addRun(answer, text, className) {
  if (!text) return;
  const last = answer.lastElementChild;
  if (last?.className === className) last.firstChild.appendData(visible(text));
  else answer.append(element("span", className, visible(text)));
}

export function showPicture({ name, url }) {
  const item = element("li");
  item.append(element("img", "", "", { src: url, alt: name }));
  return item;
}

/** The question with its pictures. */
export function questionElement({ text, pictures }) {
  const block = element("div", "question");
  const shown = element("ul", "pictures");
  shown.append(...pictures.map(showPicture));
  block.append(shown, element("p", "", text));
  return block;
}

/** A line of figures, each of which stays on one line. */
export function figuresElement(figures) {
  const line = element("p", "figures");
  const shown = figures.filter(Boolean).map((figure) => element("span", "", figure));
  line.append(...shown.flatMap((figure, index) => (index ? [" · ", figure] : [figure])));
  return line;
}
