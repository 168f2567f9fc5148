"""A conversation with loaded models: questions in, text streamed out as it is decoded."""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from statistics import median_low
from time import perf_counter, process_time

from mmspec.chat.answer import Answer, Piece, Stream
from mmspec.chat.answer_text import AnswerText
from mmspec.chat.draft_selection import drafting_for, fitting, open_drafter, pictures, spec_for
from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.chat.repetition import Repetition
from mmspec.chat.requirements import require_own_answer, require_room, require_sight
from mmspec.chat.session import OpenDrafter, Prefilled, Session
from mmspec.decoding.constraint import ConstrainedTarget
from mmspec.decoding.contract import Verifier
from mmspec.draft_length.cost_curves import at_context
from mmspec.draft_length.policy import DraftLength, FixedDraftLength
from mmspec.drafters.views import LOOKUP, PLAIN, TEXT, Drafting
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.any_image import AnyImage, pictures_of
from mmspec.prompt.conversation import Chunk, Conversation, Message, answer_ids
from mmspec.prompt.images import Picture

PLAIN_ROUNDS = 9
"""Number of latest plain rounds whose median is the cost of plain decoding."""


class Chat:
    """One conversation: its turns, its caches and the last answer."""

    def __init__(self, models: Models, options: Options, conversation: Conversation) -> None:
        """Called by `Engine.chat`; raises UsageError for a drafting that the models cannot do."""
        drafting_for(models, options)
        self.models = models
        self.options = options
        self.conversation = conversation
        self.speculate = True
        self.context: Sequence[int] = ()
        """Tokens of a text that answers continue; none if they begin with their first word."""
        self.answer = Answer()
        self._opened: Session | None = None
        self._drafter: OpenDrafter | None = None
        self._plain_rounds: deque[float] = deque(maxlen=PLAIN_ROUNDS)

    @property
    def _session(self) -> Session:
        """The caches, opened when they are first used."""
        if self._opened is None:
            target = self.models.target
            exact = self.models.exact_rows(self.options.exact)
            opened = target.model.open_target(self.options.sampling, exact)
            views = target.views(self.models.caption)
            self._opened = Session(opened, views, target.view, whole_chunks=exact is not None)
        return self._opened

    def close(self) -> None:
        """Free the caches; a later question computes the whole prompt anew."""
        self._opened = self._drafter = None

    def __enter__(self) -> "Chat":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def change(self, options: Options) -> None:
        """Use other options from the next answer on; other sampling, or `exact`, starts new caches.

        Raises UsageError for a drafting that the models cannot do.
        """
        drafting_for(self.models, options)
        now = self.options
        if (options.sampling, options.exact) != (now.sampling, now.exact):
            self.close()
        if _drafter_options(options) != _drafter_options(now):
            self._drafter = None
        self.options = options

    def cached_tokens(self, chunks: Sequence[Chunk]) -> int:
        """Number of tokens of a rendered conversation that the target need not be fed again."""
        return self._session.cached(chunks)

    @property
    def held_tokens(self) -> int:
        """Number of tokens that the target has been fed and a later prompt may share."""
        return self._session.held

    @property
    def cache_bytes(self) -> int:
        """Bytes of the images, and of the keys and values that target and draft model hold."""
        draft, opened = self.models.draft, self._drafter
        images = (image for picture in self._session.pictures for image in picture.images)
        size = sum(3 * math.prod(image.size) for image in images)
        size += self.models.target.cache_bytes(self._session.target.length)
        if draft and opened and opened.drafting != LOOKUP:
            size += draft.cache_bytes(opened.drafter.length * len(opened.drafting.branches))
        return size

    @property
    def plain(self) -> bool:
        """True if nothing can be drafted, so that every answer is decoded plainly."""
        return spec_for(self.models, self.options, ()) == PLAIN.spec

    def ask(self, text: str, images: AnyImage | Iterable[AnyImage] = ()) -> Stream:
        """Add a question with its images and stream the answer.

        images: one or several pictures, PIL images or paths, also of clips; raises ImageError for
        anything else. The stream interrupts the answer when it is dropped; the part generated so
        far stays in the conversation. If prompt, images and the longest answer exceed the target's
        positions, iterating removes the question again and raises ContextError before any work.
        """
        return self.send(Message("user", (*pictures_of(images), text)))

    def send(self, message: Message, chunks: Sequence[Chunk] | None = None) -> Stream:
        """Ask a question whose images may stand anywhere in its text; see `ask`.

        chunks: the conversation with this question, where it has been rendered already.
        """
        answer = Answer()
        return Stream(self._sent(message, chunks, answer), answer)

    def reply(self, text: str, images: AnyImage | Iterable[AnyImage] = ()) -> Answer:
        """Ask a question and wait for the whole answer; see `ask`."""
        stream = self.ask(text, images)
        for _ in stream:
            pass
        return stream.answer

    def retry(self) -> Stream:
        """Answer the last question again; the old answer stays if no new one can start."""
        answer = Answer()
        return Stream(self._sent(None, None, answer), answer)

    def extend(self) -> Stream:
        """Go on with the last answer, which was cut; raises UsageError if there is no turn."""
        turn = self.conversation.last()
        answer = Answer(turn.answer_text, beginning=turn.answer or ())
        return Stream(
            self._sent(None, self.models.target.chunks(self.conversation), answer), answer
        )

    def resume(self, conversation: Conversation) -> None:
        """Continue a saved conversation.

        Raises UsageError if an answer's tokens do not decode to its text (another tokenizer), if
        they are outside the target's vocabulary, or if the target cannot see the images.
        """
        for number, turn in enumerate(conversation.turns, start=1):
            require_sight(self.models.target, turn.pictures)
            require_own_answer(self.models.target, number, turn)
        self.conversation = conversation

    def _sent(
        self, message: Message | None, chunks: Sequence[Chunk] | None, answer: Answer
    ) -> Generator[Prefilled | Piece]:
        """Answer a question, or the last one again; if that fails at once, no turn changes."""
        turns = list(self.conversation.turns)
        if message is None:
            self.conversation.reopen()
        else:
            require_sight(self.models.target, message.pictures)
            self.conversation.add(message)
        try:
            yield from self._answered(chunks, answer)
        except Exception:
            if not answer.rounds:
                self.conversation.reopen()
            raise
        finally:
            if self.conversation.is_open:
                self.conversation.turns[:] = turns

    def _answered(
        self, chunks: Sequence[Chunk] | None, answer: Answer
    ) -> Generator[Prefilled | Piece]:
        started, models = perf_counter(), self.models
        previous, self.answer = self.answer, answer
        chunks = chunks or models.target.chunks(self.conversation)
        answer.notes += models.target.clip_notes(self.conversation.turns[-1])
        answer.statistics.prompt_tokens = length = models.positions(chunks)
        require_room(models.target, length, self.options.max_new_tokens)
        models.backend.reset_peak_memory()
        try:
            drafter = self._select_drafter(chunks)
            answer.statistics.cached_tokens = self._session.cached(chunks)
            yield from self._prefilled(chunks, drafter)
            yield from self._decoded(drafter)
        finally:
            if answer.plain_reason and not previous.plain_reason:
                answer.notes.append(answer.plain_reason)
            self.conversation.answer(self._answer_ids(answer), answer.text)
            self._remember(chunks)
            answer.plain_seconds = self._plain_seconds()
            answer.statistics.peak_memory_bytes = models.backend.peak_memory()
            answer.statistics.seconds["load"] = models.load_seconds
            answer.statistics.seconds["total"] = perf_counter() - started

    def _answer_ids(self, answer: Answer) -> tuple[int, ...]:
        """The tokens of an answer's text, without the stop token."""
        target = self.models.target
        new = (token for token in answer.token_ids if token not in target.stop)
        ids = (*answer.beginning, *new)
        # The token that completes a stop string may begin within the text.
        cut = self.options.stop_strings and target.tokenizer.decode(ids) != answer.text
        return answer_ids(answer.text, target.template, target.tokenizer) if cut else ids

    def _remember(self, chunks: Sequence[Chunk]) -> None:
        """Add the last question and its answer to the memory, if lookup drafted it."""
        models, answer = self.models, self.answer
        if models.memory is None or answer.drafting != LOOKUP or not answer.token_ids:
            return
        views = models.target.views(models.caption)
        question = [*takewhile(lambda chunk: not chunk.is_answer, reversed(chunks))]
        segments = (views.segment(chunk, TEXT) for chunk in reversed(question))
        tokens = (token for segment in segments for token in segment.token_ids(NO_TOKEN))
        models.memory.add([*tokens, *answer.token_ids])

    def positions(self, conversation: Conversation) -> int:
        """The number of positions that a conversation takes in the target's context."""
        return self.models.positions(self.models.target.chunks(conversation))

    def _select_drafter(self, chunks: Sequence[Chunk]) -> OpenDrafter | None:
        """The drafter for this answer: the one of the last answer if the views are the same.

        Computes the features and captions of new images.
        """
        models, options, answer = self.models, self.options, self.answer
        fresh = list(pictures(self._session.fresh(chunks)))
        drafting = drafting_for(models, options, chunks) if self.speculate else PLAIN
        self._encode(models.target, fresh)
        features = models.target.features
        answer.notes += dict.fromkeys(filter(None, map(features.note, fresh))) if features else ()
        if "C" in _letters(drafting):
            self._caption(fresh)  # before it is known whether C fits: that is its length
        answer.drafting, notes = fitting(models, options, drafting, chunks)
        answer.notes += notes
        answer.weights = () if answer.drafting == LOOKUP else answer.drafting.weights
        if models.draft and _letters(answer.drafting) & {"M", "P"}:
            self._encode(models.draft, fresh)
        if answer.drafting == PLAIN:
            return None
        if self._drafter is None or self._drafter.drafting != answer.drafting:
            if models.head:
                self._session.restart()  # the head needs the hidden states of all columns
            self._drafter = open_drafter(models, options, answer.drafting, self._session.target)
        return self._drafter

    def _encode(self, loaded: LoadedModel, images: Sequence[Picture]) -> None:
        """Compute the vision features of images, and count the time as the stage `vision`."""
        features = loaded.features
        if features is None:
            return
        for picture in images:
            with self.answer.statistics.timing("vision"):
                features(picture)
                self.models.backend.synchronize()

    def _caption(self, images: Sequence[Picture]) -> None:
        for picture in images:
            with self.answer.statistics.timing("caption"):
                self.models.caption(picture)

    def _prefilled(
        self, chunks: Sequence[Chunk], drafter: OpenDrafter | None
    ) -> Iterator[Prefilled]:
        prefill = self._session.prefill(chunks, drafter)
        yield from self.answer.statistics.timed("prefill", prefill)
        with self.answer.statistics.timing("prefill"):
            self.models.backend.synchronize()

    def _decoded(self, drafter: OpenDrafter | None) -> Iterator[Piece]:
        options, answer = self.options, self.answer
        target, context = self.models.target, [*self.context, *answer.beginning]
        text = AnswerText(
            target.tokenizer.stream(context), options.stop_strings, begun=bool(context)
        )
        draft_length = self._draft_length(drafter)
        rounds = self._session.decode(
            draft_length,
            max_tokens=options.max_new_tokens,
            stop=target.stop,
            seed=options.seed,
            likeliest=options.logprobs,
            processor=process_time if target.model.device == "cpu" else None,
            constrained=self._constrained(),
        )
        repetition, cut = Repetition(options.repeat_limit), None
        try:
            for round_ in answer.statistics.timed("decode", rounds):
                cut = repetition.cut(round_.tokens)
                counted, pieces = text.push(round_.until(cut))
                answer.add(counted)
                if not round_.drafted:
                    self._plain_rounds.append(round_.draft_seconds + round_.verify_seconds)
                yield from map(answer.show, pieces)
                if cut or text.is_over:
                    break
        finally:
            answer.plain_reason = draft_length.plain_reason()
        rest = text.finish()
        if drafter:
            answer.weights = drafter.weights() or answer.weights
        answer.finish(
            stopped=text.is_over or answer.token_ids[-1] in target.stop,
            repeated=options.repeat_limit if cut else 0,
        )
        yield from map(answer.show, rest)

    def _constrained(self) -> Callable[[Verifier], Verifier] | None:
        options = self.options
        if options.constraint is None:
            return None
        return partial(
            ConstrainedTarget,
            constraint=options.constraint(),
            sampling=options.sampling,
            stop=self.models.target.stop,
        )

    def _plain_seconds(self) -> float | None:
        """Time of a plain round: of this chat's latest, or as it was measured before."""
        if self._plain_rounds:
            return median_low(self._plain_rounds)
        calibration = self.models.calibration(self.models.exact_rows(self.options.exact))
        return at_context(calibration.target, self._session.target.length).get(1)

    def _draft_length(self, drafter: OpenDrafter | None) -> DraftLength:
        if drafter is None:
            return FixedDraftLength(0)
        if self.options.gamma == "auto":
            return self.models.adaptive_length(self.options, drafter.drafting)
        return FixedDraftLength(self.options.gamma)


def _drafter_options(options: Options) -> tuple[object, ...]:
    """The options that a drafter is opened with, besides its drafting."""
    return options.sampling, options.adaptive, options.tree, options.overflow


def _letters(drafting: Drafting) -> set[str]:
    return {branch.letter for branch in drafting.branches}
