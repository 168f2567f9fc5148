// Builds what the page shows. Text of the model and of files is set as text, never as HTML.

export function element(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Control characters as the symbols that Unicode has for them, because browsers show nothing. */
export function visible(text) {
  return text.replace(/[\0-\x08\x0b-\x1f\x7f]/g, (character) =>
    String.fromCharCode(character === "\x7f" ? 0x2421 : 0x2400 + character.charCodeAt(0)));
}

export function showPicture({ name, url }) {
  const item = element("li");
  item.append(element("img", "", "", { src: url, alt: name }));
  return item;
}

/** Buttons under an answer.  text: function that returns what is copied. */
export function actionsElement(text, retry) {
  const row = element("div", "actions");
  const copy = element("button", "", "Copy", { type: "button" });
  copy.onclick = async () => {
    const copying = navigator.clipboard.writeText(text());
    copy.textContent = await copying.then(() => "Copied", () => "The browser refused");
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  };
  const retryButton = element("button", "retry", "Retry", { type: "button" });
  retryButton.onclick = retry;
  // Browsers have no clipboard for pages that came over an unencrypted network.
  row.append(...(navigator.clipboard ? [copy, retryButton] : [retryButton]));
  return row;
}

/** The question with its pictures. */
export function questionElement({ text, pictures }) {
  const block = element("div", "question");
  const list = element("ul", "pictures");
  list.append(...pictures.map(showPicture));
  block.append(list, element("p", "", text));
  return block;
}

/** A line of figures, each of which stays on one line. */
export function figuresElement(figures) {
  const line = element("p", "figures");
  const spans = figures.filter(Boolean).map((figure) => element("span", "", figure));
  line.append(...spans.flatMap((figure, index) => (index ? [" · ", figure] : [figure])));
  return line;
}
