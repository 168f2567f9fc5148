"""Drafts without a model: a tree of what most probably follows by earlier text.

Places where the last tokens stood before say what may follow: the more of them agree, the more they
say (prompt lookup, Yang et al. 2023; SuffixDecoding, Oliaro et al. 2024).  Their continuations are
a tree, which is searched best first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft, Plan
from mmspec.decoding.noise import Noise, exponential
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.text_index import CONTEXTS, LONGEST, TextIndex
from mmspec.ground.tokens import NO_TOKEN

PRESENT = 4.0
"""Weight of a place in the conversation itself and in files; see EARLIER."""
DOUBT, SHORTEST = 12.0, 0.25
"""Weight of shorter contexts beside the places after n tokens: DOUBT / (n + SHORTEST), with
which estimates came true in recorded answers."""
LEAST = 0.075
"""The least chance of a drafted node; less, 0.8 / n, if more than ten nodes may be drafted."""

EARLIER = 1.0
"""Weight of a place in earlier conversations."""

Continuations = list[tuple[float, Sequence[int]]]
"""What follows places, each with its place's weight."""
Levels = list[tuple[int, Continuations]]
"""Continuations by the number of tokens that agree before them: those with the most come first."""
Node = tuple[float, int, int, int, int, Levels]
"""A node that may be drafted: the negated chance, so that the likeliest comes first, a serial
number, the token, its parent's index or -1, the nodes on its path, and the levels after it."""


@dataclass(slots=True)
class KnownText:
    """A text in which places are found, and their weight."""

    index: TextIndex
    weight: float = PRESENT


class LookupDrafter:
    """Implements `mmspec.decoding.contract.Drafter` on the host, with one branch."""

    def __init__(
        self, sampling: Sampling, tree: Tree | None = None, texts: Sequence[KnownText] = ()
    ) -> None:
        """sampling: the target's.  tree: the shape of drafts; None drafts chains.

        texts: in which places are found too; they may grow.
        """
        self._text = TextIndex()
        self._texts = [KnownText(self._text), *texts]
        self._sampling, self._tree = sampling, tree

    @property
    def length(self) -> int:
        """Number of tokens in the sequence."""
        return self._text.length

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment of the only branch."""
        (segment,) = segments
        self._text.extend(segment.token_ids(NO_TOKEN))

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        self._text.rewind(length)

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:  # noqa: ARG002
        """Append `tokens` to the sequence."""
        self._text.extend(tokens)

    def draft(self, plan: Plan, noise: Noise) -> HostDraft | None:
        """The likeliest nodes of a chain or tree; None if no node is likely enough."""
        tree = self._tree and self._tree.within(plan.nodes, plan.gamma)
        tree = tree or Tree((1,) * plan.gamma, nodes=plan.gamma)
        depth = tree.depth(plan.gamma)
        levels = self._levels(depth)
        if plan.pays and levels and not levels[0][0]:
            return None  # no context is found: to learn how seldom such a draft pays would cost
        keys = None if self._sampling.greedy else noise.keys(depth)
        tokens, parents, chances = search(tree, depth, levels, keys)
        size = plan.pays(chances) if plan.pays else len(tokens)
        if not size:
            return None
        is_chain = parents[:size] == [*range(-1, size - 1)]
        shape = None if is_chain else parents[:size]
        return HostDraft(tokens[:size], shape, by_lookup=True)

    def _levels(self, depth: int) -> Levels:
        """What followed the places of the last tokens, `depth` tokens of each."""
        levels: list[Continuations] = [[] for _ in range(LONGEST + 1)]
        above = 0
        for text in self._texts:
            if above == CONTEXTS[0]:
                break
            tokens = text.index.tokens
            by_size, above = text.index.places(self._text.context, above)
            for level, places in zip(levels, by_size, strict=True):
                level += [(text.weight, tokens[place : place + depth]) for place in places]
        return [(size, levels[size]) for size in range(LONGEST, -1, -1) if levels[size]]


def search(
    tree: Tree, depth: int, levels: Levels, keys: Sequence[Sequence[int]] | None
) -> tuple[list[int], list[int], list[float]]:
    """Tokens, parents and chances of the likeliest nodes, the likeliest first.

    levels: those after the root.  keys: of the noise at each depth; None if sampling is
    greedy.
    """
    least, serial = min(LEAST, 0.8 / tree.nodes), count()
    tokens: list[int] = []
    parents: list[int] = []
    chances: list[float] = []
    nodes: list[Node] = []
    chance, parent, index = 1.0, -1, 0
    while len(tokens) < tree.nodes:
        if index < depth and levels:
            width = tree.branching[index] if tree.branching else tree.width
            shares, below = successors(levels, index)
            for token, share in rank_tokens(shares, keys[index] if keys else None)[:width]:
                if chance * share >= least:
                    longer = below.get(token, [])
                    node = (-chance * share, next(serial), token, parent, index + 1, longer)
                    heappush(nodes, node)
        if not nodes:
            break
        minus_chance, _, token, above, index, levels = heappop(nodes)
        tokens.append(token)
        parents.append(above)
        chances.append(-minus_chance)
        chance, parent = chances[-1], len(tokens) - 1
    return tokens, parents, chances


def rank_tokens(chances: dict[int, float], key: Sequence[int] | None) -> list[tuple[int, float]]:
    """Tokens, the likeliest first, and their chances of being the target's own.

    key: that of their noise; then chances are q / E over the sum of all that may follow.
    """
    pairs = [*chances.items()]
    if key:
        scores = [chance / exponential(key, token) for token, chance in pairs]
        total = sum(scores) + 1 - sum(chances.values())
        pairs = [(token, score / total) for token, score in zip(chances, scores, strict=True)]
    return sorted(pairs, key=itemgetter(1), reverse=True) if len(pairs) > 1 else pairs


def successors(levels: Levels, index: int) -> tuple[dict[int, float], dict[int, Levels]]:
    """What follows at an index of the continuations: probabilities, whose sum may be below one.

    And, for each token, the levels after it: continuations that lead through it and are longer.

    Each level counts what followed at it and above, and gives the shorter contexts below a weight
    too (a hierarchical Dirichlet model, MacKay and Peto 1995).
    """
    weights: dict[int, float] = {}
    chances: dict[int, float] = {}
    below: dict[int, Levels] = {}
    share, total, after = 1.0, 0.0, index + 1
    for size, level in levels:
        longer: dict[int, Continuations] = {}
        for pair in level:
            weight, continuation = pair
            token = continuation[index]
            weights[token] = weights.get(token, 0.0) + weight
            total += weight
            if after < len(continuation):
                if token in longer:
                    longer[token].append(pair)
                else:
                    longer[token] = [pair]
        for token, pairs in longer.items():
            if token in below:
                below[token].append((size, pairs))
            else:
                below[token] = [(size, pairs)]
        doubt = DOUBT / (size + index + SHORTEST)
        unit = share / (total + doubt)
        for token, weight in weights.items():
            chances[token] = chances.get(token, 0.0) + unit * weight
        share = unit * doubt
    chances.pop(NO_TOKEN, None)
    return chances, below
