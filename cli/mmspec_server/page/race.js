// A race: one question decoded plainly and drafted, in turn, and what came of it.

import { answer } from "./api.js";
import { AnswerText } from "./answer.js";
import { element, figuresElement } from "./elements.js";
import { count, drafting, perSecond } from "./figures.js";

const WARM_UP = 8; // tokens
const ENOUGH = 1; // seconds of decoding; below, a race is run again, because short times vary
const MOST_RUNS = 5; // an odd number, as that of all runs, so that one of them is the median

class Lane {
  constructor(name, plain, settings) {
    this.plain = plain;
    this.settings = settings;
    this.runs = []; // {pieces: [{text, drafted, at}], end}
    this.element = element("section", "lane", "", { "aria-label": `${name} decoding` });
    this.speed = element("p", "speed", "waits");
    this.bar = element("div", "bar", "", { "aria-hidden": "true" });
    this.answer = new AnswerText();
    this.element.append(element("h4", "", name), this.speed, this.bar, this.answer.element);
  }

  fields() {
    return { ...this.settings, mmspec: { details: true, plain: this.plain } };
  }

  get stats() {
    return this.runs[0].end.stats;
  }

  get texts() {
    return this.runs.map(({ pieces }) => pieces.map(({ text }) => text).join(""));
  }

  get tokensPerSecond() {
    const speeds = this.runs.map(({ end }) => perSecond(end.stats)).sort((a, b) => a - b);
    return speeds[speeds.length >> 1];
  }

  get seconds() {
    return this.runs.reduce((sum, { end }) => sum + end.stats.seconds.decode, 0);
  }

  async warmUp(messages, signal) {
    const fields = { ...this.fields(), max_tokens: WARM_UP };
    for await (const _ of answer(messages, fields, signal));
  }

  /** Decodes once; the first time it shows the answer as it comes. */
  async run(messages, signal) {
    const run = { pieces: [] };
    const answerText = this.runs.length ? new AnswerText() : this.answer;
    const start = performance.now();
    this.speed.textContent = "decodes …";
    answerText.element.setAttribute("aria-busy", "true");
    try {
      for await (const piece of answer(messages, this.fields(), signal)) {
        if (piece.reason) run.end = piece;
        else run.pieces.push({ ...piece, at: performance.now() - start });
        if (!piece.reason) answerText.add(piece);
      }
    } finally {
      answerText.draw();
      answerText.element.setAttribute("aria-busy", "false");
    }
    this.runs.push(run);
    this.showSpeed();
  }

  showSpeed() {
    this.speed.replaceChildren(element("b", "", this.tokensPerSecond.toFixed(1)), " tokens/s");
  }

  showFigures(best) {
    const { stats } = this;
    this.bar.style.setProperty("--share", this.tokensPerSecond / best);
    const rounds = `${count(stats.rounds, "round")} for ${count(stats.tokens, "token")}`;
    this.element.append(figuresElement([rounds, drafting(stats)]));
  }

  /** Shows the first run again as it came, `since` milliseconds after its first text. */
  replay(since) {
    const [{ pieces }] = this.runs;
    const part = pieces.filter(({ at }) => at - pieces[0].at <= since);
    this.answer.show(part);
    return part.length === pieces.length;
  }
}

/** Races in `turn`, an element; returns the pieces of the answer.  fields: as of `answer`. */
export async function race(turn, messages, fields, signal, say) {
  const seed = Math.floor(Math.random() * 2 ** 32); // both draw the same
  const [plain, drafted] = [["Plain", true], ["Drafted", false]].map(([name, isPlain]) =>
    new Lane(name, isPlain, { seed, ...fields }));
  const lanes = [plain, drafted];
  const block = element("div", "race");
  block.append(plain.element, drafted.element);
  turn.append(element("h3", "unseen", "Race"), block);
  say("Racing");
  for (const lane of [drafted, plain]) await lane.warmUp(messages, signal);
  do {
    for (const lane of lanes) await lane.run(messages, signal);
  } while (plain.runs.length % 2 === 0 || (plain.seconds < ENOUGH && plain.runs.length < MOST_RUNS));
  const best = Math.max(plain.tokensPerSecond, drafted.tokensPerSecond);
  for (const lane of lanes) lane.showFigures(best);
  const verdict = judge(plain, drafted);
  turn.append(verdict, method(plain, drafted), replayButton(lanes));
  say(verdict.textContent);
  return drafted.answer.pieces;
}

function judge(plain, drafted) {
  const [text] = plain.texts;
  const other = [...plain.texts, ...drafted.texts].find((each) => each !== text);
  if (other !== undefined) {
    const place = `Other text from character ${firstDifference(text, other) + 1} on`;
    return element("p", "verdict error", `${place}: see --exact of mmspec serve`);
  }
  if (!drafted.stats.drafted) {
    const why = drafted.runs[0].end.plain_reason ?? "this server has no draft";
    return element("p", "verdict", `Same text, and nothing was drafted (${why})`);
  }
  const ratio = drafted.tokensPerSecond / plain.tokensPerSecond;
  return element("p", "verdict", `Same text, ${ratio.toFixed(2)} × the speed`);
}

function firstDifference(first, second) {
  const length = Math.min(first.length, second.length);
  for (let at = 0; at < length; at++) if (first[at] !== second[at]) return at;
  return length;
}

function method(plain, drafted) {
  const times = plain.runs.length;
  const runs = times > 1 ? `${times} times each, in turn; the speeds are medians` : "once each";
  return element("p", "method",
    `How it was timed: ${runs}. One decodes while the other waits, and before that both decode ` +
    `${WARM_UP} tokens that do not count. Seconds are the server's, of decoding alone, without ` +
    `reading the prompt. ${cacheNote([...plain.runs, ...drafted.runs])} ${lookupNote(drafted.runs)}`);
}

/** How far lookup drafted, which gains most where an answer is repeated. */
function lookupNote(runs) {
  const most = Math.max(...runs.map(({ end }) => end.stats.lookup_rounds ?? 0));
  return most
    ? `Lookup drafted up to ${count(most, "round")} from what this server answered before, perhaps ` +
      "the same: a question that is new may gain less."
    : "";
}

/** Whether every run found as much of the prompt in the server's cache. */
function cacheNote(runs) {
  const counts = runs.map(({ end }) => end.stats.cached_tokens);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const total = `Of the prompt's ${count(runs[0].end.stats.prompt_tokens, "token")}`;
  return least === most
    ? `${total} ${least} were in the cache every time.`
    : `${total} ${least} to ${most} were in the cache: another program asked in between.`;
}

function replayButton(lanes) {
  const button = element("button", "", "Replay side by side", { type: "button" });
  button.onclick = () => {
    for (const { answer: { element: { style, offsetHeight } } } of lanes) style.minHeight = `${offsetHeight}px`;
    const start = performance.now();
    const step = (now) => {
      const ends = lanes.map((lane) => lane.replay(now - start));
      if (!ends.every(Boolean)) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  };
  return button;
}
