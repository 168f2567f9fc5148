// Asks the server. The key is kept in this module's memory alone.

const GONE = "The server does not answer. Is it still running?";
const CUT = "The connection ended before the answer did.";

let key = "";

export function useKey(value) {
  key = value;
}

/** A request that failed, with a sentence for the user; status 0 if no reply came. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function request(address, options = {}) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const fixed = { headers, cache: "no-store", credentials: "omit", redirect: "error" };
  const reply = await fetch(address, { ...fixed, ...options }).catch((error) => fail(error, GONE));
  if (!reply.ok) throw new Failure(await reason(reply), reply.status);
  return reply;
}

function fail(error, message) {
  throw error.name === "AbortError" ? error : new Failure(message);
}

async function reason(reply) {
  const object = await reply.json().catch(() => ({}));
  return object.error?.message ?? `The server refused with status ${reply.status}.`;
}

/** The model that is loaded: its `id`, and a note on what it knows if it is the bundled one. */
export async function model() {
  const { data } = await (await request("v1/models")).json();
  return { id: data[0].id, note: data[0].mmspec?.note };
}

/**
 * Yields `{text, drafted}` as the answer comes, and at its end `{reason}` with the figures.
 * fields: further ones of the request.  signal: stops the answer.
 * reading: called with `{done, total}`, the new tokens of the prompt, as they are read.
 */
export async function* answer(messages, fields, signal, reading = () => {}) {
  const body = JSON.stringify({ messages, stream: true, ...fields });
  const reply = await request("v1/chat/completions", { method: "POST", body, signal });
  let ended = false;
  for await (const { choices, mmspec, error } of events(reply.body.getReader())) {
    if (error) throw new Failure(error.message);
    const [{ delta, finish_reason: reason }] = choices;
    if (mmspec?.prompt) reading(mmspec.prompt);
    if (delta.content) yield { text: delta.content, drafted: mmspec.drafted };
    if (reason) yield { reason, ...mmspec };
    ended ||= Boolean(reason);
  }
  if (!ended) throw new Failure(CUT);
}

/** The objects of server-sent events; comments are ignored. */
async function* events(reader) {
  const decoder = new TextDecoder();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => fail(error, CUT));
    if (done) return;
    const complete = (held + decoder.decode(value, { stream: true })).split("\n\n");
    held = complete.pop();
    const data = complete.filter((event) => event.startsWith("data: ")).map((e) => e.slice(6));
    yield* data.filter((text) => text !== "[DONE]").map((text) => JSON.parse(text));
  }
}
