// Words for the figures of an answer, as in the line under an answer in the terminal.

const FASTER = 1.05; // the least ratio to plain decoding that is called faster

export const perSecond = ({ tokens, seconds }) => (seconds.decode ? tokens / seconds.decode : 0);

export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

export function figures({ stats, speed_up: gain, plain_reason: plain, notes = [] }, first) {
  const fresh = stats.prompt_tokens - stats.cached_tokens;
  return [
    gain && (gain >= FASTER ? `${gain.toFixed(1)} × faster` : "no faster"),
    `${count(stats.tokens, "token")} in ${stats.seconds.decode.toFixed(1)} s, ` +
      `${perSecond(stats).toFixed(1)}/s`,
    first && `first after ${first.toFixed(2)} s (${before(stats.seconds)})`,
    drafting(stats),
    `prompt ${stats.cached_tokens} cached + ${fresh} new`,
    `peak ${memory(stats.peak_memory_bytes)}`,
    plain,
    ...notes.filter((note) => note !== plain),
  ];
}

function before(seconds) {
  const stages = ["vision", "caption"].filter((stage) => seconds[stage]);
  return [...stages, "prefill"].map((stage) => `${stage} ${seconds[stage].toFixed(2)}`).join(", ");
}

export function drafting({ drafted, accepted, depth, tokens, rounds }) {
  if (!drafted) return "no drafting";
  const share = Math.round((100 * accepted) / depth);
  return `${(tokens / rounds).toFixed(2)} tokens/round, ${share} % accepted`;
}

function memory(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(0)} MB`;
}
