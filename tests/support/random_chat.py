"""Conversations that nobody wrote: noise for pictures, words in any order, undo, retry, reset."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.decoding.tree import Tree
from mmspec.diagnostics.check import NEAR_TIES, first_divergence
from mmspec.drafters.views import PLAIN
from mmspec.ground.errors import ContextError
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import Picture, picture_from

WORDS = (
    "what why how many where colour red blue green square circle word picture image bar chart "
    "three two left of above the a is are you tell me describe compare first second last story "
    "not zero Zebra naïve 日本 🙂 <image> </s> USER: ASSISTANT: {{ }} \\n 3.5e9 ... ' \" x y z"
)


def question(draws: Random) -> str:
    """Words in any order, of which some look like markup."""
    words = draws.choices(WORDS.split(), k=draws.randint(1, 12))
    return " ".join(words) + draws.choice(["?", ".", ""])


def picture(draws: Random) -> Picture:
    """Noise of any shape."""
    width, height = draws.randint(8, 200), draws.randint(8, 200)
    noise = draws.randbytes(3 * width * height)
    return picture_from(Image.frombytes("RGB", (width, height), noise))


def message(draws: Random) -> Message:
    """A question with up to three pictures, before the text or within it."""
    pictures = [picture(draws) for _ in range(draws.choice([0, 0, 1, 1, 2, 3]))]
    parts: list[str | Picture] = [*pictures, question(draws)]
    if draws.random() < 0.3:
        draws.shuffle(parts)
    return Message("user", tuple(parts))


def drafting(draws: Random, engine: Engine) -> dict[str, Any]:
    """Any drafting that the engine's models can do, as options."""
    gamma = draws.choice(["auto", *range(1, 9)])
    tree = draws.choice(["auto", None, Tree(), Tree(branching=(3, 2, 1)), Tree(width=4, nodes=12)])
    if engine.draft is None:
        return {"drafting": "lookup", "gamma": gamma, "tree": tree}
    word = draws.choice([None, "M", "T", "P", "MT", "MP", "MTP", "MTC", "lookup", "MT+lookup"])
    if word and len(word) in (2, 3) and draws.random() < 0.4:
        return {"drafting": word, "gamma": gamma, "adaptive": True}
    return {"drafting": word, "gamma": gamma, "tree": tree}


@dataclass
class RandomChat:
    """One chat that goes through everything; drafted answers are compared with a plain cold run.

    `counts` has the numbers of steps by name, of answers that were compared (`compared`), of those
    with drafted tokens (`drafted`), and of `near-tie` and `bug` among their differences.
    """

    engine: Engine
    draws: Random
    options: Options = field(default_factory=lambda: Options(max_new_tokens=24))
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chat = self.engine.chat(self.options)

    def step(self) -> None:
        """Do one thing to the chat: mostly ask and compare."""
        steps = [self.ask] * 8 + [self.undo, self.retry, self.reset, self.interrupt, self.resume]
        chosen = self.draws.choice(steps)
        self.counts[chosen.__name__] += 1
        chosen()

    def ask(self) -> None:
        """Ask by another drafting, and compare the answer with that of a plain cold run."""
        self.chat.change(replace(self.options, **drafting(self.draws, self.engine)))
        asked, before = message(self.draws), tuple(self.chat.conversation.turns)
        try:
            list(self.chat.send(asked))
        except ContextError:
            assert tuple(self.chat.conversation.turns) == before
            self.reset()
            return
        plain_options = replace(self.options, drafting=PLAIN.spec)
        plain = self.engine.chat(plain_options, Conversation(None, list(before)))
        list(plain.send(asked))
        plain.close()
        self.compare(asked, before, plain.answer, plain_options)

    def compare(self, asked: Message, before: Any, plain: Any, options: Options) -> None:
        """Count the last answer as equal to `plain`, as a near-tie or as a bug."""
        answer = self.chat.answer
        self.counts["compared"] += 1
        self.counts["drafted"] += answer.statistics.drafted > 0
        found = first_divergence(self.engine, asked, plain, answer, options, before)
        if found:
            exact = self.engine.exact_rows(options.exact) is not None
            limit = 0.0 if exact else NEAR_TIES[self.engine.target.model.dtype]
            self.counts[found.outcome(limit)] += 1
            print(f"differs: {self.chat.options}, {asked.parts}, {found}")  # noqa: T201

    def undo(self) -> None:
        """Take the last turn back, if there is one."""
        if self.chat.conversation.turns:
            self.chat.conversation.undo()

    def retry(self) -> None:
        """Answer the last question again: with the same options it is the same answer."""
        turns = self.chat.conversation.turns
        if turns:
            list(self.chat.retry())

    def reset(self) -> None:
        """Begin anew."""
        self.chat.conversation.reset()

    def interrupt(self) -> None:
        """Leave an answer after some events."""
        try:
            with self.chat.send(message(self.draws)) as answering:
                for _ in zip(range(self.draws.randrange(6)), answering, strict=False):
                    pass
        except ContextError:
            self.reset()
        assert not self.chat.conversation.is_open

    def resume(self) -> None:
        """Go on in a new chat with what is read from the saved conversation."""
        saved = self.chat.conversation.to_json()
        self.chat.close()
        self.chat = self.engine.chat(self.options)
        self.chat.resume(Conversation.from_json(saved))
        assert self.chat.conversation.to_json() == saved
