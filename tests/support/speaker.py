"""What answers a server's requests in place of a model."""

from threading import Event as Flag
from time import sleep

from mmspec.chat.answer import Answer, Piece
from mmspec.decoding.statistics import Statistics


def in_parts(text):
    """The text, three letters at a time."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


class Speaker:
    """Answers in place of a model, one part at a time, and remembers what it was asked."""

    def __init__(self, parts=("one ", "two"), pause=0.0):
        self.parts, self.pause, self.plain_parts = parts, pause, None
        self.asked, self.closed = [], Flag()

    def __call__(self, cache, prompt, options, *, plain=False):
        self.asked.append((prompt, options, plain))
        statistics = Statistics(prompt_tokens=7, cached_tokens=6)
        answer = Answer(finish_reason="stop", statistics=statistics)
        try:
            parts = self.plain_parts if plain and self.plain_parts else self.parts
            for number, part in enumerate(parts[: options.max_new_tokens]):
                sleep(self.pause)
                statistics.tokens += 1
                statistics.rounds += 1
                statistics.seconds["decode"] += 0.01
                answer.text += part
                yield Piece("", part) if plain or number % 2 else Piece(part, "")
            yield answer
        finally:
            self.closed.set()

    def questions(self, index=-1):
        """The texts of the user's turns of one request."""
        prompt, _, _ = self.asked[index]
        turns = [*(turn.question for turn in prompt.before.turns), prompt.question]
        return [part for turn in turns for part in turn.parts if isinstance(part, str)]
