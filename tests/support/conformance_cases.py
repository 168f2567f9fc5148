"""What every backend is asked: conversations of all shapes, and what a cold run answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.decoding.tree import Tree
from mmspec.ground.entry_points import BACKENDS, plugins_of
from mmspec.prompt.chunks import Chunk, render
from mmspec.prompt.conversation import Conversation, Turn
from mmspec.prompt.images import Picture, picture_from

DRAFTINGS = ["".join(word) for size in range(1, 5) for word in combinations("MTCP", size)]
NOUNS = ("circle", "square", "triangle", "bar", "picture", "chart", "word", "image")


TREES = {
    "static": Tree((3, 2, 2, 1)),
    "cut": Tree((4, 3, 2), nodes=7),
    "dynamic": Tree((), 4, 12),
    "wide": Tree(),
}
SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True}
HEADS = {
    "eagle": ("eagle", {}),
    "eagle3": ("eagle3", {}),
    "eagle3 mapped": ("eagle3", {"draft_vocab_size": 270, "norm_output": True}),
    "msd": ("msd", {}),
    "vispec": ("vispec", {}),
    "medusa": ("medusa", {"vision": "mean"}),
    "hydra": ("hydra", {}),
    "flash": ("flash", {}),
    "flash whole": ("flash", {"queries": 0}),
    "dflash": ("dflash", SLIDING | {"sliding_window": 6}),
    "dspark": ("dspark", {}),
    "dspark mapped": (
        "dspark",
        {"markov_head_type": "rnn", "draft_vocab_size": 270, "image_context": False},
    ),
}
"""Heads by name: their kind, and what their config says."""


Question = tuple[str, tuple[Picture, ...]]


def picture(seed: int, size: int = 32) -> Picture:
    """A picture of random pixels."""
    content = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return picture_from(Image.fromarray(content), f"picture-{seed}")


def by_turns(cases: Iterable[Any], backend: str, turn: int = 0) -> list[Any]:
    """Every second case, those between them on the other backend."""
    return list(cases)[(turn + (backend == "torch")) % 2 :: 2]


def in_turn(values: Iterable[Any], *, others: bool = False) -> list[Any]:
    """Backends and values, to parametrize by: each value on one backend, in turn.

    others: on the other backends too, in slow tests.
    """
    names, values = sorted(plugins_of(BACKENDS)), list(values)
    chosen = [(names[number % len(names)], value) for number, value in enumerate(values)]
    rest = [pair for pair in product(names, values) if others and pair not in chosen]
    return chosen + [pytest.param(*pair, marks=pytest.mark.slow) for pair in rest]


PICTURES = [picture(seed) for seed in range(7)]


def questions(images: int, turns: int, seed: int) -> Iterator[Question]:
    """One or two questions; of several images, some come with the second."""
    draws = np.random.default_rng(seed)
    later = images // 2 if turns == 2 else 0
    shown = [PICTURES[index] for index in draws.permutation(7)[:images]]
    for count in [images - later, later][:turns]:
        nouns = " or the ".join(draws.choice(NOUNS, 3))
        yield f"Is the {nouns} {draws.integers(1000)}?", tuple(shown[:count])
        shown = shown[count:]


def replies(chat: Chat, asked: Sequence[Question]) -> list[list[int]]:
    """The ids of all answers of a conversation."""
    return [chat.reply(text, images).token_ids for text, images in asked]


def plainly(options: Options) -> Options:
    """The same answers without a draft."""
    return Options(
        drafting="none",
        max_new_tokens=options.max_new_tokens,
        sampling=options.sampling,
        seed=options.seed,
    )


KNOWN: dict[tuple[Any, ...], Any] = {}
"""What `once` has computed."""


def once(models: Models, options: Options, *asked: Any, compute: Callable[[], Any]) -> Any:
    """What comes of a question, computed once: without a draft for all models of one target."""
    target = models.target
    own = target.directory, target.model.dtype, target.model.quantize, models.backend.name
    key = own if options.drafting == "none" else (models,), options, asked
    if key not in KNOWN:
        KNOWN[key] = compute()
    return KNOWN[key]


def plain_replies(models: Models, options: Options, asked: tuple[Question, ...]) -> list[list[int]]:
    """The ids of all answers without a draft."""
    plain = plainly(options)
    return once(models, plain, asked, compute=lambda: replies(models.chat(plain), asked))


def interrupt(chat: Chat, question: Question, events: int) -> bool:
    """Ask and leave the answer after so many events; true if it had as many."""
    with chat.ask(*question) as answering:
        return sum(1 for _ in zip(range(events), answering, strict=False)) == events


def check_replies(models: Models, options: Options, asked: Iterable[Question]) -> Chat:
    """A chat that has been asked all questions, its answers held to plain decoding's."""
    chat, asked = models.chat(options), tuple((text, tuple(shown)) for text, shown in asked)
    assert replies(chat, asked) == plain_replies(models, options, asked), options
    return chat


def copied(chat: Chat) -> Conversation:
    """The turns so far, for a chat that has no caches yet."""
    return Conversation(chat.conversation.system, list(chat.conversation.turns))


def outcome(chat: Chat) -> tuple[Any, ...]:
    """What must not depend on what the caches have been through; first the answer's ids."""
    answer, statistics = chat.answer, chat.answer.statistics
    counts = (statistics.rounds, statistics.drafted, statistics.accepted)
    return answer.token_ids, answer.text, answer.finish_reason, statistics.prompt_tokens, counts


def prompt_of(chat: Chat, number: int = 0) -> list[Chunk]:
    """The prompt of a conversation's question of a number, the last by default."""
    target, turns = chat.models.target, chat.conversation.turns
    last = number or len(turns)
    asked = Conversation(chat.conversation.system, list(turns[: last - 1]))
    asked.add(turns[last - 1].question)
    return render(asked, target.template, target.tokenizer)


def logits(chat: Chat) -> np.ndarray:
    """The target's next-token logits where the chat stands."""
    return chat._session.target.logits()


def cold_answer(
    models: Models, options: Options, turns: tuple[Turn, ...], question: Question, speculate: bool
) -> tuple[tuple[Any, ...], np.ndarray]:
    """The outcome and the logits of a new chat after `turns`."""

    def compute() -> tuple[tuple[Any, ...], np.ndarray]:
        chat = models.chat(options, Conversation(None, list(turns)))
        chat.speculate = speculate
        chat.reply(*question)
        return outcome(chat), logits(chat)

    return once(models, options, turns, question, speculate, compute=compute)


def check_like_cold(chat: Chat, question: Question) -> None:
    """Ask, and hold the answer to a cold run's and to plain decoding's."""
    state = tuple(chat.conversation.turns), question, chat.speculate
    fresh, (plain, expected) = (
        cold_answer(chat.models, each, *state) for each in (chat.options, plainly(chat.options))
    )
    chat.reply(*question)
    assert outcome(chat) == fresh[0]
    assert chat.answer.token_ids == plain[0]
    np.testing.assert_allclose(logits(chat), expected, atol=1e-4)


def small(engine: Engine, drafting: str = "MT", **named: Any) -> Options:
    """Options for a short answer."""
    given = {"gamma": 3, "max_new_tokens": 10} | named
    chosen = "none" if engine.draft is None else drafting
    return Options(drafting=chosen, **given)
