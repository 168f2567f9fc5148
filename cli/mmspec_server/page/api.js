// Asks the server. The key is kept in this module's memory alone.

const GONE = "The server does not answer. Is it still running?";
const CUT = "The connection ended before the answer did.";

let key = "";

export function useKey(value) {
  key = value;
}

/** A request that failed, with a sentence for the user; status 0 if no reply came. */
export class Failure extends Error {
  constructor(message, status = 0, param = "") {
    super(message);
    this.status = status;
    this.param = param; // the field of the request that was wrong
  }
}

async function request(address, options = {}) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const defaults = { headers, cache: "no-store", credentials: "omit", redirect: "error" };
  const reply = await fetch(address, { ...defaults, ...options }).catch((error) => fail(error, GONE));
  if (!reply.ok) throw new Failure(...await reason(reply));
  return reply;
}

function fail(error, message) {
  throw error.name === "AbortError" ? error : new Failure(message);
}

async function reason(reply) {
  const object = await reply.json().catch(() => ({}));
  const { message, param } = object.error ?? {};
  return [message ?? `The server refused with status ${reply.status}.`, reply.status, param];
}

/** The model that is loaded: its `id`, and a note on what it knows if it is the bundled one. */
export async function model() {
  const { data } = await (await request("v1/models")).json();
  return { id: data[0].id, note: data[0].mmspec?.note };
}

/**
 * Yields `{text, drafted}` as the answer comes, and at its end `{reason}` with the figures.
 * fields: further ones of the request.  signal: stops the answer.
 * progress: called with `{waiting}`, the number of answers before this one, and with `{prompt:
 * {done, total}}`, the new tokens of the prompt, as they are read.
 */
export async function* answer(messages, fields, signal, progress = () => {}) {
  const body = JSON.stringify({ messages, stream: true, ...fields });
  const reply = await request("v1/chat/completions", { method: "POST", body, signal });
  let hasEnded = false;
  for await (const { choices, mmspec, error } of events(reply.body.getReader())) {
    if (error) throw new Failure(error.message);
    const [{ delta, finish_reason: reason }] = choices;
    if (mmspec?.prompt || mmspec?.waiting) progress(mmspec);
    if (delta.content) yield { text: delta.content, drafted: mmspec.drafted };
    if (reason) yield { reason, ...mmspec };
    hasEnded ||= Boolean(reason);
  }
  if (!hasEnded) throw new Failure(CUT);
}

/** The objects of server-sent events; comments are ignored. */
async function* events(reader) {
  const decoder = new TextDecoder();
  let tail = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => fail(error, CUT));
    if (done) return;
    const complete = (tail + decoder.decode(value, { stream: true })).split("\n\n");
    tail = complete.pop();
    const data = complete.filter((event) => event.startsWith("data: ")).map((e) => e.slice(6));
    yield* data.filter((text) => text !== "[DONE]").map((text) => JSON.parse(text));
  }
}
