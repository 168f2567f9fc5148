"""Turns the tokens of an answer's rounds into its text, up to a stop string or a repetition.

Text, number of tokens and log-probabilities do not depend on what was drafted: with stop strings
every token is read by itself, as plain decoding does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise, takewhile
from operator import itemgetter

from mmspec.chat.answer import Answer, Piece
from mmspec.decoding.statistics import Likelihood, Round
from mmspec.prompt.text_stream import TextStream, before_stop
from mmspec.prompt.tokenizer import Tokenizer

LONGEST = 64
"""Tokens in the longest part whose repetition is found."""


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
        self,
        stream: TextStream,
        stops: Sequence[str] = (),
        before: str = "",
        *,
        overlap: int = 0,
        continues: bool = False,
    ) -> None:
        """stops: strings that are not empty.  before: text before the stream's.

        overlap: the first characters of `before` that were shown with an earlier answer.
        continues: whether the answer continues a text, so that it may begin with a space.
        """
        self._stream, self._stops = stream, stops
        self._keeps_space = continues
        self._length = len(before)  # characters read
        self._letters = [(letter, False) for letter in before]  # and whether they were drafted
        self._free = 0  # those that can be shown: no stop string begins in them
        self._likelihoods: list[tuple[int, Likelihood]] = []  # each after the start of its text
        self.excess = overlap
        """What is left of the overlap; after a stop string, the end that the answer loses."""
        self.is_over = False
        """True after a stop string."""

    def push(self, round_: Round) -> tuple[Round, list[Piece]]:
        """The round up to the token that completes a stop string, and what can be shown of it."""
        length, accepted = len(round_.tokens), round_.accepted
        is_by_token = self._stops or round_.likelihoods  # else the drafted ones, then the others
        for start, end in pairwise(range(length + 1) if is_by_token else (0, accepted, length)):
            likelihoods = round_.likelihoods[start:end]
            begin = self._length + (len(self._stream.tail) if likelihoods else 0)
            self._likelihoods += [(begin, likelihood) for likelihood in likelihoods]
            self._add(self._stream.push(round_.tokens[start:end]), is_drafted=start < accepted)
            if self.is_over:
                return round_.until(end), self._release(self._free)
        return round_, self._release(self._free) or [Piece("", "")]

    def finish(self) -> list[Piece]:
        """What was withheld, at the answer's end; nothing if a stop string ended it."""
        if self.is_over:
            return []
        self._add(self._stream.finish(), is_drafted=False)
        if self.is_over:
            return self._release(self._free)
        pieces = self._release(len(self._letters))
        likelihoods = tuple(likelihood for _, likelihood in self._likelihoods)
        return [*pieces, Piece("", "", likelihoods)] if likelihoods else pieces

    def _add(self, text: str, *, is_drafted: bool) -> None:
        """Read text of one origin."""
        if text and not self._keeps_space:  # without the space that tokenizers put before a word
            self._keeps_space, text = True, text.removeprefix(" ")
        self._length += len(text)
        self._letters += [(letter, is_drafted) for letter in text]
        letters = "".join(letter for letter, _ in self._letters)
        self._free, self.is_over = before_stop(letters, self._stops, self.excess)

    def _release(self, length: int) -> list[Piece]:
        """The next `length` characters, with the log-probabilities of tokens that begin in them."""
        pieces = pieces_of(self._letters[self.excess : length])
        self.excess = max(self.excess - length, 0)
        del self._letters[:length]
        end = self._length - len(self._letters)
        starts = takewhile(lambda entry: entry[0] < end, self._likelihoods)
        likelihoods = tuple(likelihood for _, likelihood in starts)
        del self._likelihoods[: len(likelihoods)]
        if not likelihoods:
            return pieces
        first, *later = pieces or [Piece("", "")]
        return [replace(first, likelihoods=likelihoods), *later]


def text_after(
    answer: Answer, context: Sequence[int], tokenizer: Tokenizer, stops: Sequence[str]
) -> AnswerText:
    """The text of what follows an answer's beginning.

    A character that was cut at its end is read again. So is what an interrupt withheld there, and
    what may begin a stop string, of which no letter is shown twice.
    context: the tokens before the answer, if it continues a text.
    """
    stream = tokenizer.stream(context)
    whole = "".join(stream.push([id]) for id in answer.beginning)
    text = whole if context else whole.removeprefix(" ")
    shorter, longer = sorted([text, answer.text], key=len)
    if not longer.startswith(shorter):  # another model wrote it
        stream, text = tokenizer.stream([*context, *answer.beginning]), answer.text
    answer.text = answer.text[: len(text)]
    length = len(answer.text)
    start = min(before_stop(text, stops, length)[0], length)
    continues = bool(context or whole)
    return AnswerText(stream, stops, text[start:], overlap=length - start, continues=continues)


def pieces_of(letters: Iterable[tuple[str, bool]]) -> list[Piece]:
    """Characters, each with whether it was drafted, in as few pieces as there can be."""
    pieces = list[Piece]()
    for is_drafted, run in groupby(letters, key=itemgetter(1)):
        text = "".join(letter for letter, _ in run)
        if is_drafted:
            pieces.append(Piece(text, ""))
        else:
            accepted = pieces.pop().accepted if pieces else ""
            pieces.append(Piece(accepted, text))
    return pieces
