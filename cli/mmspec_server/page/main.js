// The page: a conversation, the form under it, and the key that a server may need.

import { AnswerText } from "./answer.js";
import { answer, Failure, model, useKey } from "./api.js";
import { actionsElement, element, figuresElement, questionElement } from "./elements.js";
import { figures } from "./figures.js";
import { forget, keep, load } from "./history.js";
import { addFiles, onFiles, setPictures, takePictures } from "./pictures.js";
import { race } from "./race.js";

const byId = (id) => document.getElementById(id);
const [box, askButton, raceButton, stopButton] = ["question", "ask", "race", "stop"].map(byId);
const [conversation, composer, problem] = ["conversation", "composer", "problem"].map(byId);
const [welcome, system, temperature] = ["welcome", "system", "temperature"].map(byId);

let turns = []; // {question: {text, pictures}, pieces: those of the answer}
let last = null; // {question, messages, turn}: what a race with an empty form asks again
let running = null; // the AbortController of the answer that comes
let atEnd = true; // whether the page follows what comes

const say = (text) => { byId("status").textContent = text; };

function messagesWith(question) {
  const userMessage = ({ text, pictures }) => ({
    role: "user",
    content: [
      ...pictures.map(({ url }) => ({ type: "image_url", image_url: { url } })),
      { type: "text", text },
    ],
  });
  const history = turns.flatMap((turn) => [
    userMessage(turn.question),
    { role: "assistant", content: textOf(turn.pieces) },
  ]);
  const text = system.value.trim();
  const first = text ? [{ role: "system", content: text }] : [];
  return [...first, ...history, userMessage(question)];
}

const textOf = (pieces) => pieces.map(({ text }) => text).join("");

/** The fields of a request that the settings name. */
const settingFields = () =>
  temperature.value === "" ? {} : { temperature: Number(temperature.value) };

/** Streams the answer into `turn`; returns its pieces, also if it was stopped. */
async function ask(turn, messages, signal) {
  const answerText = new AnswerText();
  const prompt = element("p", "figures");
  turn.append(element("h3", "unseen", "Answer"), prompt, answerText.element);
  answerText.element.setAttribute("aria-busy", "true");
  say("Answering");
  const start = performance.now();
  let first = 0;
  const progress = ({ waiting, prompt: { done, total } = { done: 0, total: 0 } }) => {
    const reads = done < total ? `reads ${done} of ${total} tokens` : "";
    prompt.textContent = waiting ? "waits: another answer is running" : reads;
  };
  const fields = { ...settingFields(), mmspec: { details: true } };
  try {
    for await (const piece of answer(messages, fields, signal, progress)) {
      if (piece.reason) {
        turn.append(figuresElement(figures(piece, first)));
        say(`Answer: ${answerText.text}`);
        continue;
      }
      if (!first) prompt.textContent = "";
      first ||= (performance.now() - start) / 1000;
      answerText.add(piece);
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    turn.append(element("p", "figures", "stopped"));
    say("Stopped");
  } finally {
    prompt.remove();
    answerText.draw();
    answerText.element.setAttribute("aria-busy", "false");
  }
  return answerText.pieces;
}

const page = document.documentElement;
const toEnd = () => scrollTo(0, page.scrollHeight);
let height = 0; // where the page was scrolled to
document.onscroll = () => {
  if (page.scrollHeight - innerHeight - scrollY < 80) atEnd = true;
  else if (scrollY < height) atEnd = false;
  height = scrollY;
};
new ResizeObserver(() => atEnd && toEnd()).observe(conversation);

/** Answers the last question in its turn; returns the pieces, none if there is no answer. */
async function run(method) {
  const { messages, turn } = last;
  toEnd();
  running = new AbortController();
  working(true);
  try {
    return await method(turn, messages, running.signal);
  } catch (error) {
    report(error, turn, messages);
    return [];
  } finally {
    running = null;
    working(false);
  }
}

/** Asks what is in the form, to which a question without an answer returns. */
async function askNew(method) {
  last = take();
  const { question, turn } = last;
  const pieces = await run(method);
  if (!textOf(pieces)) return giveBack(question);
  end(turn, { question, pieces });
  save();
}

/** The question in the form, which becomes a turn of the conversation. */
function take() {
  const question = { text: box.value, pictures: takePictures() };
  box.value = "";
  return addTurn(question);
}

function addTurn(question) {
  const turn = element("article", "turn");
  turn.append(element("h2", "unseen", "Question"), questionElement(question));
  conversation.append(turn);
  welcome.hidden = true;
  return { question, messages: messagesWith(question), turn };
}

/** Adds a question with its answer to the conversation. */
function end(turn, exchange) {
  turns.push(exchange);
  conversation.querySelectorAll(".retry").forEach((button) => button.remove());
  turn.append(actionsElement(() => textOf(exchange.pieces), retry));
}

/** Answers the last question again; its turn stays if no other answer comes. */
async function retry({ target }) {
  if (running) return;
  const [exchange, oldTurn] = [turns.pop(), target.closest(".turn")];
  oldTurn.hidden = true;
  last = addTurn(exchange.question);
  turns.push(exchange); // the messages are without it
  const pieces = await run(ask);
  oldTurn.hidden = false;
  if (textOf(pieces)) {
    turns.pop();
    oldTurn.remove();
    end(last.turn, { question: exchange.question, pieces });
    save();
  }
}

function save() {
  const settings = { system: system.value, temperature: temperature.value };
  const whole = keep({ turns, ...settings });
  if (!whole) problem.textContent = "This conversation is too large to be there after a reload.";
}

/** Shows the conversation that this tab had before a reload. */
function restore() {
  const record = load();
  if (!record) return;
  system.value = record.system;
  temperature.value = record.temperature;
  for (const { question, pieces } of record.turns) {
    last = addTurn(question);
    const { element: answerElement } = new AnswerText(pieces);
    last.turn.append(element("h3", "unseen", "Answer"), answerElement);
    end(last.turn, { question, pieces });
  }
  working(false);
}

/** Puts a question without an answer back into the form, unless another has been begun. */
function giveBack({ text, pictures }) {
  if (box.value || byId("pictures").childElementCount) return;
  box.value = text;
  setPictures(pictures);
}

function report(error, turn, messages) {
  if (error.name === "AbortError") {
    turn.append(element("p", "figures", "stopped"));
    say("Stopped");
    return;
  }
  if (!(error instanceof Failure)) throw error;
  turn.append(element("p", "error", refusalText(error, messages), { role: "alert" }));
  if (error.status === 401) askForKey("");
}

/** The message of a refusal, with a picture's name in place of its field. */
function refusalText({ message, param }, messages) {
  const [, at, part] = param?.match(/^messages\[(\d+)\]\.content\[(\d+)\]/) ?? [];
  const { url } = messages[at]?.content[part]?.image_url ?? {};
  const questions = [...turns.map((turn) => turn.question), last.question];
  const picture = questions.flatMap(({ pictures }) => pictures).find((each) => each.url === url);
  return picture ? message.replace(param, picture.name) : message;
}

function working(yes) {
  const focus = document.activeElement;
  stopButton.hidden = !yes;
  askButton.hidden = yes;
  raceButton.setAttribute("aria-disabled", yes);
  byId("new").hidden = yes || !conversation.querySelector(".turn");
  if (yes && focus === askButton) stopButton.focus();
  if (!yes && focus === stopButton) box.focus();
}

/** True if the form holds a question; else the browser says that it needs one. */
function complete() {
  problem.textContent = "";
  box.value = box.value.trim();
  return composer.reportValidity();
}

composer.onsubmit = (event) => {
  event.preventDefault();
  if (!running && complete()) askNew(ask);
};
raceButton.onclick = () => {
  if (running) return;
  const empty = !box.value.trim() && !byId("pictures").childElementCount;
  if (empty && last) run(racing);
  else if (complete()) askNew(racing);
};
const racing = (turn, messages, signal) => race(turn, messages, settingFields(), signal, say);
stopButton.onclick = () => running?.abort();
document.onkeydown = (event) => {
  if (event.key === "Escape") running?.abort();
};
box.onkeydown = (event) => { // 229: Safari's Enter at the end of a composition
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  composer.requestSubmit();
};
byId("new").onclick = () => {
  turns = [];
  last = null;
  forget();
  conversation.querySelectorAll(".turn").forEach((turn) => turn.remove());
  welcome.hidden = false;
  byId("new").hidden = true;
  say("New conversation");
  box.focus();
};

async function add(files) {
  problem.textContent = (await addFiles([...files])).join("\n");
  box.focus();
}
byId("files").onchange = async ({ target }) => {
  await add(target.files);
  target.value = "";
};
for (const sample of document.querySelectorAll("#samples img")) {
  sample.parentElement.onclick = async () => {
    const content = await (await fetch(sample.src)).blob();
    await add([new File([content], sample.src.split("/").at(-1), { type: content.type })]);
    box.value ||= "What is in this picture?";
  };
}
onFiles(add);

function askForKey(wrong) {
  byId("unlock").hidden = false;
  byId("wrong").textContent = wrong;
  byId("key").focus();
}
byId("unlock").onsubmit = (event) => {
  event.preventDefault();
  useKey(byId("key").value);
  byId("key").value = "";
  connect("The server refused this key.");
};

/** Shows the model's name, or asks for the key. */
async function connect(wrong = "") {
  try {
    const { id, note } = await model();
    byId("model").textContent = id;
    byId("note").textContent = note ? `${id}: ${note}.` : "";
    document.title = `${id} · mmspec`;
    problem.textContent = "";
    if (!byId("unlock").hidden) box.focus();
    byId("unlock").hidden = true;
  } catch (error) {
    if (error.status === 401) askForKey(wrong);
    else problem.textContent = error.message;
  }
}
system.onchange = temperature.onchange = save;
restore();
connect();
