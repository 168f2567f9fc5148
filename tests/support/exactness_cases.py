"""Conversations whose answers must not depend on what drafts, in any number type.

A script asks five times: a question with images, a second turn, another one after an undo, a retry,
and a third turn, which the plain chat answers after reading the whole conversation anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    chat.reply(f"Is the {NOUNS[images]} here?", PICTURES[:images])
    yield _state(chat)
    chat.reply(f"And {images} of the {NOUNS[images + 1]}?", PICTURES[5 : 5 + (images > 2)])
    yield _state(chat)
    chat.conversation.undo()
    chat.reply("Then what is it?")
    yield _state(chat)
    list(chat.retry())
    yield _state(chat)
    if anew:
        chat = chat.models.chat(chat.options, copied(chat))
    chat.reply("Is there more?")
    yield _state(chat)


def _state(chat: Chat) -> Reply:
    *turns, last = chat.conversation.turns
    return (*turns, last.question), chat.answer.token_ids


def compare_all(
    engines: Mapping[str, Engine], some: Iterable[Case], exact: str, length: int
) -> dict[Case, list[bool]]:
    """For each case whether its answers equal plain ones to the same history.

    Each is asked of the engine that its drafting names, else of the one named ''. The last pair is
    warm against cold.
    """
    known: dict[tuple[Options, int], list[Reply]] = {}
    found = {}
    for case in some:
        options = case.options(exact, length)
        plain = replace(options, drafting="none", tree=None, adaptive=False, gamma=1)
        if (plain, case.images) not in known:
            known[plain, case.images] = [*script(engines[""].chat(plain), case.images, anew=True)]
        chat = engines.get(case.drafting, engines[""]).chat(options)
        pairs = zip(script(chat, case.images, anew=False), known[plain, case.images], strict=True)
        found[case] = [one[1] == two[1] for one, two in pairs if one[0] == two[0]]
    return found


def check_same_bits(engine: Engine, some: list[Case], length: int) -> None:
    """Hold every answer of the cases to plain decoding's, with exact rows."""
    assert compare_all({"": engine}, some, "on", length) == dict.fromkeys(some, [True] * ANSWERS)
