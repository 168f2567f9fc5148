"""A conversation with an engine: questions in, text out as it is decoded."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from mmspec.conversation import Chunk, Conversation, Message, Turn, render
from mmspec.drafting import NGRAM, PLAIN, Drafting
from mmspec.errors import ContextError, UsageError
from mmspec.estimates import shown_by
from mmspec.images import Picture
from mmspec.lengths import TIMED, AutoLength
from mmspec.options import Options
from mmspec.session import DraftSide, Prefilled, Session
from mmspec.sides import drafting_for, fitting, open_side, pictures, word_for
from mmspec.statistics import Round, Statistics
from mmspec.tokenizer import TextStream
from mmspec.viskip import skipping

if TYPE_CHECKING:
    from mmspec.engine import Engine


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that one round added: first what was drafted and accepted, then the target's own."""

    accepted: str
    own: str

    @property
    def text(self) -> str:
        """Both."""
        return self.accepted + self.own


@dataclass(slots=True)
class Answer:
    """What came of one question."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    """Everything generated, the stop token included."""
    finish_reason: str = "interrupted"
    """'stop', 'length', or 'interrupted' while it is not finished."""
    drafting: Drafting = PLAIN
    weights: tuple[float, ...] = ()
    """[R] what the last round mixed the branches of `drafting` with."""
    notes: list[str] = field(default_factory=list)
    """One line for every decision the user did not make."""
    rounds: list[Round] = field(default_factory=list)
    statistics: Statistics = field(default_factory=Statistics)


class Chat:
    """One conversation: its turns, the caches behind them and the last answer."""

    def __init__(self, engine: "Engine", options: Options, conversation: Conversation) -> None:
        """Open with `Engine.chat`; raises UsageError for a drafting that the draft cannot do."""
        self.engine = engine
        self.options = options
        self.conversation = conversation
        self.speculate = True
        self.answer = Answer()
        target = engine.target
        opened = target.model.open_target(options.sampling, options.watches)
        self._session = Session(opened, target.views(engine.caption), target.view)
        self._side: DraftSide | None = None
        self._fell_back = False
        if engine.drafts is None:
            options.require_draft()
        self._drafting(())

    @property
    def plain(self) -> bool:
        """Whether nothing can be drafted, so that every answer is decoded plainly."""
        return word_for(self.engine, self.options, ()) == PLAIN.word

    def ask(self, text: str, images: Sequence[Picture] = ()) -> Generator[Prefilled | Piece]:
        """Add a question with its images and stream the answer.

        Yields progress of the prefill, then text.  Dropping the iterator interrupts the answer,
        which stays in the conversation as far as it got.  Raises ContextError before any work
        where prompt, images and budget exceed the target's positions; the question is then gone.
        """
        return self.send(Message("user", (*images, text)))

    def send(self, message: Message) -> Generator[Prefilled | Piece]:
        """`ask` with images anywhere among the text."""
        self._check_sight(message)
        turns = list(self.conversation.turns)
        self.conversation.add(message)
        yield from self._answered_or(turns)

    def reply(self, text: str, images: Sequence[Picture] = ()) -> Answer:
        """Ask and wait for the whole answer."""
        for _ in self.ask(text, images):
            pass
        return self.answer

    def retry(self) -> Generator[Prefilled | Piece]:
        """Answer the last question again; where no answer can begin, the old one stays."""
        turns = list(self.conversation.turns)
        self.conversation.reopen()
        yield from self._answered_or(turns)

    def resume(self, conversation: Conversation) -> None:
        """Go on with a saved conversation.

        Raises UsageError where an answer's tokens are not its text, as with another tokenizer, or
        no tokens of the target's at all, and for images that the target does not see.
        """
        decode = self.engine.target.tokenizer.decode
        for number, turn in enumerate(conversation.turns, start=1):
            self._check_sight(turn.question)
            self._check_tokens(number, turn.answer or ())
            told, saved = decode(turn.answer or ()), turn.answer_text
            # An interrupted answer may end within a character, a whole one with a stop token.
            if not (told.startswith(saved) or saved.startswith(told)):
                raise UsageError(
                    f"answer {number} was written in other tokens than {self.engine.target.name}'s:"
                    " go on with the model that gave it"
                )
        self.conversation = conversation

    def _check_sight(self, message: Message) -> None:
        if message.pictures and self.engine.target.features is None:
            raise UsageError(f"{self.engine.target.name} is text-only and cannot see images")

    def _check_tokens(self, number: int, answer: Sequence[int]) -> None:
        """Refuse ids that the target does not have; it may say any that it has."""
        target = self.engine.target
        size = target.model.config.text.vocab_size
        for token in answer:
            if not 0 <= token < size:
                raise UsageError(
                    f"answer {number} holds {token}, which is no token of {target.name}'s (0 to "
                    f"{size - 1}): the file was damaged, or comes from another model"
                )

    def _answered_or(self, turns: list[Turn]) -> Generator[Prefilled | Piece]:
        """Answer the open question; leave `turns` as the conversation where nothing begins."""
        try:
            yield from self._answered()
            self._keep_costs()
        finally:
            if self.conversation.is_open:
                self.conversation.turns[:] = turns

    def _answered(self) -> Generator[Prefilled | Piece]:
        started = perf_counter()
        engine = self.engine
        answer = self.answer = Answer()
        chunks = render(self.conversation, engine.target.template, engine.target.tokenizer)
        answer.statistics.prompt_tokens = self._check_context(chunks)
        answer.statistics.cached_tokens = self._session.cached(chunks)
        engine.backend.reset_peak_memory()
        try:
            self._look(chunks)
            self._session.draft_side = self._plan(chunks)
            yield from self._prefilled(chunks)
            yield from self._decoded()
        finally:
            stop = engine.stop
            ids = tuple(token for token in answer.token_ids if token not in stop)
            self.conversation.answer(ids, answer.text)
            answer.statistics.peak_memory_bytes = engine.backend.peak_memory()
            answer.statistics.seconds["load"] = engine.load_seconds
            answer.statistics.seconds["total"] = perf_counter() - started

    def _check_context(self, chunks: Sequence[Chunk]) -> int:
        """Prompt positions; raises ContextError where the budget does not fit after them."""
        target = self.engine.target
        length = target.views(self.engine.caption).length(chunks, target.view)
        room = target.model.config.text.max_position_embeddings
        if length + self.options.max_new_tokens > room:
            raise ContextError(
                f"prompt and images take {length} positions and the answer may take "
                f"{self.options.max_new_tokens}: {target.name} has {room}; use fewer images, "
                "a shorter prompt or a smaller --max-new-tokens"
            )
        return length

    def _look(self, chunks: Sequence[Chunk]) -> None:
        """Compute vision features and captions of new images, each timed as its own stage."""
        statistics = self.answer.statistics
        letters = {branch.letter for branch in self._drafting(chunks).branches}
        drafts = self.engine.draft if letters & {"M", "P"} else None
        for picture in pictures(self._session.fresh(chunks)):
            with statistics.timing("vision"):
                for loaded in filter(None, (self.engine.target, drafts)):
                    if loaded.features:
                        loaded.features(picture)
                self.engine.backend.synchronize()
            if "C" in letters:
                with statistics.timing("caption"):
                    self.engine.caption(picture)

    def _drafting(self, chunks: Sequence[Chunk]) -> Drafting:
        """What the options ask for, or the default; nothing while speculation is off."""
        return drafting_for(self.engine, self.options, chunks) if self.speculate else PLAIN

    def _plan(self, chunks: Sequence[Chunk]) -> DraftSide | None:
        """The draft side for this prompt: the last one while its branches stay the same."""
        engine, options = self.engine, self.options
        drafting, notes = fitting(engine, options, self._drafting(chunks), chunks)
        self.answer.notes += notes
        self.answer.drafting = drafting
        self.answer.weights = () if drafting == NGRAM else drafting.weights
        if not drafting.branches:
            return None
        if self._side is None or self._side.drafting != drafting:
            self._side = open_side(engine, options, drafting, self._session.target)
        return self._side

    def _prefilled(self, chunks: Sequence[Chunk]) -> Iterator[Prefilled]:
        yield from self.answer.statistics.timed("prefill", self._session.prefill(chunks))
        with self.answer.statistics.timing("prefill"):
            self.engine.backend.synchronize()

    def _decoded(self) -> Iterator[Piece]:
        options, answer = self.options, self.answer
        stream = self.engine.target.tokenizer.stream()
        gamma = options.gamma if isinstance(options.gamma, int) else self._lengths
        rounds = self._session.decode(
            gamma=skipping(gamma, options.skip_vision),
            max_tokens=options.max_new_tokens,
            stop=self.engine.stop,
            seed=None if options.sampling.greedy else options.seed,
        )
        for round_ in answer.statistics.timed("decode", rounds):
            answer.statistics.count(round_)
            answer.rounds.append(round_)
            answer.token_ids += round_.tokens
            answer.weights = round_.weights or answer.weights
            yield self._said(round_, stream)
        self._note_lengths()
        answer.finish_reason = "stop" if answer.token_ids[-1] in self.engine.stop else "length"
        rest = stream.finish()
        answer.text += rest
        if rest:
            yield Piece("", rest)

    def verdict(self) -> str | None:
        """Under gamma 'auto' one line on why it decodes plainly; None as long as it drafts."""
        drafts = self.options.gamma == "auto" and self._session.draft_side
        return self._lengths.verdict() if drafts else None

    @property
    def _lengths(self) -> AutoLength:
        return self.engine.lengths(self.answer.drafting, self.options.tree)

    def _note_lengths(self) -> None:
        """Say under 'auto' that it has come to plain decoding, once until it drafts again."""
        if self.options.gamma != "auto" or self._session.draft_side is None:
            return
        if not self.options.sampling.greedy:
            self.answer.notes.append(TIMED)
        verdict = self.verdict()
        if verdict and not self._fell_back:
            self.answer.notes.append(verdict)
        self._fell_back = verdict is not None

    def _keep_costs(self) -> None:
        """Leave what this answer's rounds cost; where nothing can be, only 'auto' has to say so."""
        if self.options.tree or self.options.watches or self._session.draft_side is None:
            return
        auto = self.options.gamma == "auto"
        self.engine.keep_costs(
            self.answer.drafting, self._lengths.measured if auto else self._seen()
        )
        if auto and self.engine.unkept:
            self.answer.notes.append(self.engine.unkept)
            self.engine.unkept = ""

    def _seen(self) -> dict[int, float]:
        """What the lengths that this answer drafted cost, beside a plain forward, if it is news."""
        shown = shown_by(self.answer.rounds)
        engine, word = self.engine, self.answer.drafting.word
        news = shown.keys() - engine.calibration.costs(self.answer.drafting).keys() - {0}
        if not engine.calibration_file or news <= engine.compared.setdefault(word, set()):
            return {}
        engine.compared[word] |= news
        plain = self._session.plain_seconds()
        # What is as dear as plain decoding, or cheaper than one plain round, a busy moment made.
        believed = {k: each for k, each in shown.items() if plain <= each < (1 + k) * plain}
        return {**believed, 0: plain}

    def _said(self, round_: Round, stream: TextStream) -> Piece:
        accepted = stream.push(round_.tokens[: round_.accepted])
        piece = Piece(accepted, stream.push(round_.tokens[round_.accepted :]))
        self.answer.text += piece.text
        return piece
