"""Turns the tokens of an answer's rounds into its text, up to a stop string or a repetition.

Text, number of tokens and log-probabilities do not depend on what was drafted: with stop strings
every token is read by itself, as plain decoding does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from mmspec.chat.answer import Answer, Piece
from mmspec.decoding.statistics import Likelihood, Round
from mmspec.prompt.text_stream import TextStream
from mmspec.prompt.tokenizer import Tokenizer

LONGEST = 64
"""Tokens in the longest part whose repetition is found."""


def before_stop(text: str, stops: Sequence[str]) -> tuple[int, bool]:
    """Number of characters before the first stop string, and whether all of it is there.

    Without a whole one, what may begin one counts: the longest end of the text that does.
    """
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    if ends:
        return min(ends), True
    longest = max(map(len, stops), default=1) - 1
    places = range(max(len(text) - longest, 0), len(text))
    begun = (at for at in places if any(stop.startswith(text[at:]) for stop in stops))
    return next(begun, len(text)), False


def repetition_end(before: Sequence[int], tokens: Sequence[int], limit: int) -> int | None:
    """The number of `tokens` up to the first at which the last `limit` of all repeat one part.

    before: the answer's earlier tokens.  None if they never do, as with a limit of 0.
    """
    if limit == 0:
        return None
    for number in range(1, len(tokens) + 1):
        last = [*before[-limit:], *tokens[:number]][-limit:]
        if len(last) == limit and _repeats(last):
            return number
    return None


def _repeats(tokens: Sequence[int]) -> bool:
    """True if the tokens repeat one part of at most LONGEST tokens, twice or more."""
    periods = range(1, min(LONGEST, len(tokens) // 2) + 1)
    near = (period for period in periods if tokens[-1] == tokens[-1 - period])  # few: it is fast
    return any(tokens[period:] == tokens[:-period] for period in near)


class AnswerText:
    """The text of one answer, as its rounds come."""

    def __init__(
        self, stream: TextStream, stops: Sequence[str] = (), held: str = "", *, begun: bool = False
    ) -> None:
        """stops: strings that are not empty.  held: text before the stream's, which may begin one.

        begun: whether the answer continues a text, so that it may begin with a space.
        """
        self._stream, self._stops = stream, stops
        self._begun = begun
        self._read, self._shown = len(held), 0  # characters
        self._held = [(letter, False) for letter in held]  # and whether they were drafted
        self._free = 0  # those that can be shown: no stop string begins in them
        self._likelihoods: list[tuple[int, Likelihood]] = []  # each after the start of its text
        self.is_over = False
        """True after a stop string."""

    def push(self, round_: Round) -> tuple[Round, list[Piece]]:
        """The round up to the token that completes a stop string, and what can be shown of it."""
        singly = bool(self._stops or round_.likelihoods)
        runs = [round_.tokens[: round_.accepted], round_.tokens[round_.accepted :]]
        count = 0
        for run, drafted in zip(runs, (True, False), strict=True):
            for tokens in [[token] for token in run] if singly else [run]:
                self._note_starts(round_.likelihoods[count : count + len(tokens)])
                self._add(self._stream.push(tokens), drafted=drafted)
                count += len(tokens)
                if self.is_over:
                    return round_.until(count), self._pieces(self._free)
        return round_, self._pieces(self._free) or [Piece("", "")]

    def finish(self) -> list[Piece]:
        """What was withheld, at the answer's end; nothing if a stop string ended it."""
        if self.is_over:
            return []
        self._add(self._stream.finish(), drafted=False)
        if self.is_over:
            return self._pieces(self._free)
        pieces = self._pieces(self._read - self._shown)
        rest = tuple(likelihood for _, likelihood in self._likelihoods)
        return [*pieces, Piece("", "", rest)] if rest else pieces

    def _note_starts(self, likelihoods: Sequence[Likelihood]) -> None:
        start = self._read + (len(self._stream.withheld) if likelihoods else 0)
        self._likelihoods += [(start, likelihood) for likelihood in likelihoods]

    def _add(self, text: str, *, drafted: bool) -> None:
        """Read text of one origin."""
        if text and not self._begun:  # without the space that tokenizers put before a word
            self._begun, text = True, text.removeprefix(" ")
        self._read += len(text)
        self._held += [(letter, drafted) for letter in text]
        held = "".join(letter for letter, _ in self._held)
        self._free, self.is_over = before_stop(held, self._stops)

    def _pieces(self, length: int) -> list[Piece]:
        """The next `length` characters, with the log-probabilities of tokens that begin in them."""
        pieces = pieces_of(self._held[:length])
        del self._held[:length]
        self._shown += length
        ready = [each for start, each in self._likelihoods if start < self._shown]
        self._likelihoods = self._likelihoods[len(ready) :]
        if not ready:
            return pieces
        first, *others = pieces or [Piece("", "")]
        return [replace(first, likelihoods=tuple(ready)), *others]


def text_after(
    answer: Answer, context: Sequence[int], tokenizer: Tokenizer, stops: Sequence[str]
) -> AnswerText:
    """The text of what follows an answer's beginning.

    The answer's text becomes all of its beginning's, which an interrupt may have withheld in part,
    but for a character that was cut there, and for what may begin a stop string at its end: they
    are read with the rest of it.
    context: the tokens before the answer, if it continues a text.
    """
    letters = tokenizer.stream(context)
    whole = "".join(letters.push([id]) for id in answer.beginning)
    first, shown = sorted([whole.removeprefix(" "), answer.text], key=len)
    if shown.startswith(first):
        answer.text = whole.removeprefix(" ")
    else:  # another model wrote it
        letters = tokenizer.stream([*context, *answer.beginning])
    end, _ = before_stop(answer.text, stops)
    answer.text, held = answer.text[:end], answer.text[end:]
    return AnswerText(letters, stops, held, begun=bool(context or whole))


def pieces_of(letters: Iterable[tuple[str, bool]]) -> list[Piece]:
    """Characters, each with whether it was drafted, in as few pieces as there can be."""
    pieces = list[Piece]()
    for drafted, run in groupby(letters, key=itemgetter(1)):
        text = "".join(letter for letter, _ in run)
        if drafted:
            pieces.append(Piece(text, ""))
        else:
            accepted = pieces.pop().accepted if pieces else ""
            pieces.append(Piece(accepted, text))
    return pieces
