"""Print the milliseconds of lookup's drafts after 100,000 tokens, greedy and sampled.

    python tests/lookup_cost.py

Texts: words of a skewed distribution, a repetition, and random tokens of which there are two, the
worst that was found; alone, and with as many tokens of earlier conversations.
"""

from time import perf_counter

import numpy as np

from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.segment import Segment
from mmspec.decoding.tree import Tree
from mmspec.drafters.lookup import KnownText, LookupDrafter
from mmspec.drafters.text_index import TextIndex

TOKENS, ROUNDS, NODES = 100_000, 300, 12


def milliseconds(text: np.ndarray, earlier: np.ndarray, temperature: float) -> float:
    """The median time of a draft of at most NODES nodes, with three tokens accepted a round."""
    texts = [KnownText(TextIndex.of(earlier), 1.0)] if len(earlier) else []
    drafter = LookupDrafter(Sampling(temperature), Tree(nodes=NODES), texts)
    drafter.extend([Segment((text[:TOKENS].tolist(),))])
    times = []
    for number in range(ROUNDS):
        start = perf_counter()
        drafter.draft(Plan(NODES, NODES), Noise(0, number))
        times.append(perf_counter() - start)
        at = TOKENS + 3 * number
        drafter.extend([Segment((text[at : at + 3].tolist(),))])
    return 1000 * float(np.median(times))


def main() -> None:
    """Print a line for each text."""
    draws, size = np.random.default_rng(0), 2 * TOKENS + 3 * ROUNDS
    words = draws.zipf(1.3, size) % 30_000
    texts = {"words": words, "repetition": words[np.arange(size) % 7], "two tokens": words % 2}
    for name, text in texts.items():
        text = text.astype(np.int32)
        for earlier in (text[:0], text[-TOKENS:]):
            times = [milliseconds(text, earlier, temperature) for temperature in (0.0, 1.0)]
            print(f"{name}, {len(earlier)} earlier: {times[0]:.3f}, sampled {times[1]:.3f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
