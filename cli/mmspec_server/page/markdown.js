// Markdown as elements: what models write of it. Letters are never lost: whatever is not surely
// markup stays as it is, and code is shown letter for letter.

import { element } from "./elements.js";

const FENCE = /^( *)(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( {1,4}(?=\S)|[ \t]*$)/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const CODE = /^(?: {4}|\t)/;
const DELIMITERS = /^ *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;

/** The elements of a text. */
export function markdown(text) {
  const node = document.createDocumentFragment();
  addBlocks(node, text.split("\n"));
  return node;
}

function addBlocks(parent, lines) {
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    if (!line.trim()) at++;
    else if (FENCE.test(line)) at = addFence(parent, lines, at);
    else if (CODE.test(line) && !ITEM.test(line)) at = addCode(parent, lines, at);
    else if (RULE.test(line)) at = parent.append(element("hr")) ?? at + 1;
    else if (HEADING.test(line)) at = addHeading(parent, line) ?? at + 1;
    else if (QUOTE.test(line)) at = addQuote(parent, lines, at);
    else if (ITEM.test(line)) at = addList(parent, lines, at);
    else if (isTable(lines, at)) at = addTable(parent, lines, at);
    else at = addParagraph(parent, lines, at);
  }
}

const begins = (line) =>
  !line.trim() || [FENCE, RULE, HEADING, QUOTE, ITEM].some((kind) => kind.test(line));
const isTable = (lines, at) => lines[at].includes("|") && DELIMITERS.test((lines[at + 1] ?? "").trim());
const indent = (line) => line.match(/^ */)[0].length;

function addPre(parent, lines) {
  const pre = element("pre");
  pre.append(element("code", "", lines.join("\n")));
  parent.append(pre);
}

function addFence(parent, lines, start) {
  const [, spaces, fence] = lines[start].match(FENCE);
  const closes = (line) => {
    const end = line.trim();
    return end.length >= fence.length && end === fence[0].repeat(end.length);
  };
  let end = start + 1;
  while (end < lines.length && !closes(lines[end])) end++;
  const cut = (line) => line.slice(Math.min(indent(line), spaces.length));
  addPre(parent, lines.slice(start + 1, end).map(cut));
  return end + 1;
}

function addCode(parent, lines, start) {
  let end = start;
  while (end < lines.length && (CODE.test(lines[end]) || !lines[end].trim())) end++;
  const code = lines.slice(start, end).map((line) => line.replace(CODE, ""));
  while (!code.at(-1).trim()) code.pop();
  addPre(parent, code);
  return end;
}

function addHeading(parent, line) {
  const [, marks, text] = line.match(HEADING);
  const heading = element("p", "heading", "", { role: "heading", "aria-level": marks.length + 3 });
  addInline(heading, text);
  parent.append(heading);
}

function addQuote(parent, lines, start) {
  let end = start;
  while (end < lines.length && (QUOTE.test(lines[end]) || !begins(lines[end]))) end++;
  const quote = element("blockquote");
  addBlocks(quote, lines.slice(start, end).map((line) => line.replace(QUOTE, "")));
  parent.append(quote);
  return end;
}

function addList(parent, lines, start) {
  const [, spaces, mark] = lines[start].match(ITEM);
  const isNumber = (text) => /\d/.test(text);
  const list = isNumber(mark)
    ? element("ol", "", "", { start: parseInt(mark, 10) })
    : element("ul");
  parent.append(list);
  let at = start;
  while (at < lines.length) {
    const [whole, before, own] = lines[at].match(ITEM) ?? [];
    if (before?.length !== spaces.length || isNumber(own) !== isNumber(mark)) break;
    const width = lines[at].slice(whole.length) ? whole.length : before.length + 2;
    const itemLines = [lines[at++].slice(whole.length)];
    while (at < lines.length && belongs(lines, at, width)) {
      itemLines.push(lines[at].slice(Math.min(indent(lines[at]), width)));
      at++;
    }
    const item = element("li");
    addBlocks(item, itemLines);
    list.append(item);
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at++;
  }
  return at;
}

/** True if a line goes on with an item whose text begins at column `width`. */
function belongs(lines, at, width) {
  if (lines[at].trim()) {
    return indent(lines[at]) >= width || (lines[at - 1].trim() !== "" && !begins(lines[at]));
  }
  const next = lines.slice(at).find((line) => line.trim());
  return next !== undefined && indent(next) >= width;
}

function addTable(parent, lines, start) {
  const table = element("table");
  let end = start;
  for (; end < lines.length && lines[end].includes("|"); end++) {
    if (end === start + 1) continue;
    const cells = lines[end].trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/);
    const row = element("tr");
    for (const text of cells) {
      const cell = element(end === start ? "th" : "td");
      addInline(cell, text.trim().replaceAll("\\|", "|"));
      row.append(cell);
    }
    table.append(row);
  }
  parent.append(table);
  return end;
}

function addParagraph(parent, lines, start) {
  let end = start + 1;
  while (end < lines.length && !begins(lines[end])) end++;
  const paragraph = element("p");
  addInline(paragraph, lines.slice(start, end).join("\n"));
  parent.append(paragraph);
  return end;
}

const SPAN = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/y;
const LINK = /\[([^[\]]+)\]\((https?:[^\s()]+)\)/y;
const ESCAPE = /\\[*_`#]/y;
const CJK = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}";
const WORD = new RegExp(`[^\\P{L}${CJK}]|[\\p{N}/\\\\=@#&%$~]`, "u"); // also parts of paths and sums

function match(kind, text, at) {
  kind.lastIndex = at;
  return kind.exec(text);
}

function addInline(parent, text) {
  let plain = "";
  for (let at = 0; at < text.length;) {
    const [node, length] = inline(text, at);
    if (typeof node === "string") {
      plain += node;
    } else {
      parent.append(plain, node);
      plain = "";
    }
    at += length;
  }
  parent.append(plain);
}

/** What stands at a place, an element or text, and the number of letters that it takes. */
function inline(text, at) {
  const letter = text[at];
  if (letter === "`") return codeSpan(text, at);
  if (letter === "*" || letter === "_") return emphasis(text, at);
  if (letter === "\\" && match(ESCAPE, text, at)) return [text[at + 1], 2];
  const link = letter === "[" && match(LINK, text, at);
  if (!link) return [letter, 1];
  const attributes = { href: link[2], target: "_blank", rel: "noreferrer" };
  return [element("a", "", link[1], attributes), link[0].length];
}

function codeSpan(text, at) {
  const span = match(SPAN, text, at);
  if (span) return [element("code", "", span[2].replace(/^ (.+) $/s, "$1")), span[0].length];
  const [run] = text.slice(at).match(/^`+/);
  return [run, run.length];
}

/** Stars and underscores stand around words; within words, and beside spaces, they are letters. */
function emphasis(text, at) {
  const [run] = text.slice(at).match(/^(\*+|_+)/);
  const opens = !WORD.test(text[at - 1] ?? " ") && /\S/.test(text[at + run.length] ?? " ");
  const close = opens && run.length <= 3 ? closing(text, at + run.length, run) : -1;
  const isName = run === "__" && /^\w+$/.test(text.slice(at + 2, close)); // such as __init__
  if (close < 0 || isName) return [run, run.length];
  const node = element(run.length > 1 ? "strong" : "em");
  const inner = run.length === 3 ? node.appendChild(element("em")) : node;
  addInline(inner, text.slice(at + run.length, close));
  return [node, close + run.length - at];
}

/** Where the run that closes an emphasis stands; -1 if there is none. */
function closing(text, from, run) {
  for (let at = from; at < text.length;) {
    const code = text[at] === "`" && match(SPAN, text, at);
    const [next] = text.slice(at).match(/^(\*+|_+)/) ?? [""];
    const ends = next === run && /[^\s([{]/.test(text[at - 1]) && at > from;
    if (ends && !WORD.test(text[at + run.length] ?? " ")) return at;
    at += code ? code[0].length : next.length || 1;
  }
  return -1;
}
