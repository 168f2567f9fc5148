"""Conversations whose answers must not depend on what drafts, in any number type.

A script asks five times: a question with images, a second turn, another one after an undo, a retry,
and a third turn, which the plain chat answers after reading the whole conversation anew.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from support.conformance_cases import NOUNS, PICTURES, copied

Reply = tuple[tuple[object, ...], list[int]]
"""The conversation up to a question, and the ids of the answer."""

TREES = {"tree 12": Tree((), 4, 12), "tree 24": Tree((), 6, 24)}
SHAPES: dict[str, tuple[int, Tree | None]] = {
    **{f"gamma {gamma}": (gamma, None) for gamma in range(1, 9)},
    **{name: (5, tree) for name, tree in TREES.items()},
}
"""Draft length and tree by name."""
SAMPLED = Sampling(temperature=0.8)
ANSWERS = 5
"""Answers of a script."""


@dataclass(frozen=True)
class Case:
    """A drafting and what is asked with it."""

    drafting: str
    shape: str
    images: int
    sampled: bool
    adaptive: bool = False

    def options(self, exact: str, length: int) -> Options:
        """How the drafted chat decodes."""
        gamma, tree = SHAPES[self.shape]
        return Options(
            drafting=self.drafting,
            adaptive=self.adaptive,
            gamma=gamma,
            tree=tree,
            sampling=SAMPLED if self.sampled else Sampling(),
            seed=3 + self.images,
            max_new_tokens=length,
            exact=exact,
        )


def cases(draftings: Iterable[str]) -> list[Case]:
    """Every drafting in every shape, greedy and sampled, in an order that is shuffled once.

    So every n-th case says as much of each drafting and shape as of the others. The number of
    images changes from one case to the next; every second mixture has adaptive weights.
    """
    every = [
        (word, shape, sampled) for word, shape, sampled in product(draftings, SHAPES, (False, True))
    ]
    Random(0).shuffle(every)
    return [
        Case(word, shape, 1 + number % 5, sampled, adaptive=is_mixture(word) and number % 2 == 0)
        for number, (word, shape, sampled) in enumerate(every)
    ]


def chains(draftings: Iterable[str]) -> list[Case]:
    """Those cases whose drafts are chains, as recurrent layers need."""
    return [case for case in cases(draftings) if case.shape not in TREES]


def is_mixture(drafting: str) -> bool:
    """True if several views draft."""
    return drafting.isupper() and len(drafting) > 1


def script(chat: Chat, images: int, *, anew: bool) -> Iterator[Reply]:
    """Each answer's history and ids; anew: the last one is given by a chat without caches."""
    first, second = PICTURES[:images], PICTURES[5 : 5 + (images > 2)]
    yield from _asked(chat, f"Is the {NOUNS[images]} here?", first)
    yield from _asked(chat, f"And {images} of the {NOUNS[images + 1]}?", second)
    chat.conversation.undo()
    yield from _asked(chat, "Then what is it?", ())
    list(chat.retry())
    yield _state(chat)
    if anew:
        chat = chat.models.chat(chat.options, copied(chat))
    yield from _asked(chat, "Is there more?", ())


def _asked(chat: Chat, text: str, images: object) -> Iterator[Reply]:
    chat.reply(text, images)
    yield _state(chat)


def _state(chat: Chat) -> Reply:
    *turns, last = chat.conversation.turns
    return (*turns, last.question), chat.answer.token_ids


@dataclass(frozen=True)
class Count:
    """Pairs of answers to the same history, and those of them that differ, by the case."""

    pairs: Counter[Case] = field(default_factory=Counter)
    different: Counter[Case] = field(default_factory=Counter)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.pairs + other.pairs, self.different + other.different)


class PlainAnswers:
    """What plain decoding answers, decoded once for all draftings of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[tuple[Options, int], list[Reply]] = {}

    def compare(self, engine: Engine, case: Case, exact: str, length: int) -> Count:
        """Ask with and without the case's drafting; the last pair is warm against cold."""
        options = case.options(exact, length)
        plain = replace(options, drafting="none", tree=None, adaptive=False, gamma=1)
        if (plain, case.images) not in self._known:
            chat = self._engine.chat(plain)
            self._known[plain, case.images] = [*script(chat, case.images, anew=True)]
        drafted = script(engine.chat(options), case.images, anew=False)
        pairs = zip(drafted, self._known[plain, case.images], strict=True)
        answers = [(one[1], two[1]) for one, two in pairs if one[0] == two[0]]
        different = sum(one != two for one, two in answers)
        return Count(Counter({case: len(answers)}), Counter({case: different}))


def compare_all(
    engines: Mapping[str, Engine], draftings: list[Case], exact: str, length: int
) -> Count:
    """Compare each case with the engine that its drafting names, else with the one named ''."""
    plain = PlainAnswers(engines[""])
    counts = (
        plain.compare(engines.get(case.drafting, engines[""]), case, exact, length)
        for case in draftings
    )
    return sum(counts, Count())


def check_same_bits(engine: Engine, some: list[Case], length: int) -> None:
    """Hold every answer of the cases to plain decoding's, with exact rows."""
    count = compare_all({"": engine}, some, "on", length)
    assert not +count.different
    assert count.pairs == dict.fromkeys(some, ANSWERS)
