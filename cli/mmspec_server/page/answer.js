// An answer as it comes: its Markdown, with the drafted text tinted.

import { element, visible } from "./elements.js";
import { markdown } from "./markdown.js";

const PAUSE = 60; // milliseconds between two drawings

export class AnswerText {
  constructor(pieces = []) {
    this.pieces = []; // {text, drafted}, neighbours of one origin joined
    this.element = element("div", "answer");
    pieces.forEach((piece) => this.append(piece));
    this.draw();
  }

  get text() {
    return this.pieces.map(({ text }) => text).join("");
  }

  add(piece) {
    this.append(piece);
    this.waiting ??= setTimeout(() => this.draw(), PAUSE);
  }

  append({ text, drafted = false }) {
    const last = this.pieces.at(-1);
    if (last?.drafted === drafted) last.text += text;
    else this.pieces.push({ text, drafted });
  }

  /** Shows these pieces in place of the others. */
  show(pieces) {
    this.pieces = [];
    pieces.forEach((piece) => this.append(piece));
    this.draw();
  }

  draw() {
    clearTimeout(this.waiting);
    this.waiting = undefined;
    const content = markdown(this.text);
    tint(content, this.pieces);
    this.element.replaceChildren(content);
  }
}

/** Tints the drafted letters: those that are shown are letters of the pieces, in their order. */
function tint(content, pieces) {
  const text = pieces.map((piece) => piece.text).join("");
  const ends = [];
  for (const piece of pieces) ends.push((ends.at(-1) ?? 0) + piece.text.length);
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let at = 0, piece = 0;
  for (const node of nodes) {
    const runs = []; // {text, drafted}
    for (const letter of node.data) {
      const place = text.indexOf(letter, at);
      if (place >= 0) at = place + letter.length;
      while (at > ends[piece]) piece++;
      const { drafted } = pieces[piece];
      const space = drafted && !runs.at(-1)?.drafted && !letter.trim(); // before drafted text
      if (runs.length && (space || runs.at(-1).drafted === drafted)) runs.at(-1).text += letter;
      else runs.push({ text: letter, drafted: drafted && !space });
    }
    node.replaceWith(...runs.map((run) =>
      run.drafted ? element("span", "drafted", visible(run.text)) : visible(run.text)));
  }
}
