"""A conversation with loaded models: questions in, text streamed out as it is decoded."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median_low
from time import perf_counter

from mmspec.chat.answer import Answer, Events, Piece, Stream
from mmspec.chat.answer_text import repetition_end, text_after
from mmspec.chat.draft_selection import TYPICAL_ANSWER, drafting_for, fit_drafting, open_drafter
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.chat.plugin_head import draft_errors
from mmspec.chat.session import OpenDrafter, Session
from mmspec.decoding.constraint import ConstrainedTarget
from mmspec.draft_length.calibration_file import at_context
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.entry_points import any_plugin_errors
from mmspec.ground.errors import BackendError, UsageError
from mmspec.prompt.any_image import AnyImage, pictures_of
from mmspec.prompt.chunks import Chunk, answer_ids, pictures
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import RGB_PIXEL_BYTES, Picture

PLAIN_ROUNDS = 9
"""Number of latest plain rounds whose median is the cost of plain decoding."""


class Chat:
    """One conversation: its turns, its caches and the last answer."""

    def __init__(self, models: Models, options: Options, conversation: Conversation) -> None:
        """Called by `Engine.chat`; raises UsageError as `change` and `resume`."""
        drafting_for(models, options)
        self.models, self.options = models, options
        self.resume(conversation)
        self.speculate = True
        self.context: Sequence[int] = ()
        """Last tokens of a text that answers continue; none if they begin a text."""
        self.answer = Answer()
        self._sequences: Session | None = None
        self._drafter: OpenDrafter | None = None
        self._drafter_key: tuple[object, ...] = ()
        self._plain_rounds: deque[float] = deque(maxlen=PLAIN_ROUNDS)
        self._has_states = False  # the target stores the states of all columns for a head
        self._most_bytes = 0  # of the caches, after any answer

    @property
    def _session(self) -> Session:
        """The caches, opened when they are first used."""
        if self._sequences is None:
            target = self.models.target
            exact = self.models.exact_rows(self.options.exact)
            sequence = target.model.open_target(self.options.sampling, exact)
            views = target.views(self.models.caption)
            self._sequences = Session(sequence, views, target.view, whole_chunks=exact is not None)
        return self._sequences

    def close(self) -> None:
        """Free the caches; a later question computes the whole prompt anew."""
        self._sequences = self._drafter = None
        self._has_states, self._most_bytes = False, 0

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
        self.options = options

    def cached_tokens(self, chunks: Sequence[Chunk]) -> int:
        """Number of tokens of a rendered conversation that the target need not be fed again."""
        return self._session.cached_tokens(chunks)

    @property
    def held_tokens(self) -> int:
        """Number of tokens that the target has been fed and a later prompt may share."""
        return self._session.held_tokens

    @property
    def cache_bytes(self) -> int:
        """Bytes of the images, and of the caches, which stay as large as an answer needed them."""
        images = (image for picture in self._session.pictures for image in picture.images)
        return self._most_bytes + sum(RGB_PIXEL_BYTES * math.prod(image.size) for image in images)

    @property
    def plain(self) -> bool:
        """True if nothing can be drafted, so that every answer is decoded plainly."""
        return drafting_for(self.models, self.options) == PLAIN

    def ask(self, text: str, images: AnyImage | Iterable[AnyImage] = ()) -> Stream:
        """Add a question with its images and stream the answer.

        images: one or several pictures, PIL images or paths, also of clips; raises ImageError for
        anything else. The stream interrupts the answer when it is dropped; the part generated so
        far stays in the conversation. An answer ends where the target's positions do. If prompt and
        images leave fewer than `max_new_tokens` and than TYPICAL_ANSWER, iterating removes the
        question again and raises ContextError before any work.
        """
        return self.send(Message("user", (*pictures_of(images), text)))

    def send(self, message: Message, chunks: Sequence[Chunk] | None = None) -> Stream:
        """Ask a question whose images may stand anywhere in its text; see `ask`.

        chunks: the conversation with this question, where it has been rendered already.
        """
        return self._stream(message, chunks, Answer())

    def reply(self, text: str, images: AnyImage | Iterable[AnyImage] = ()) -> Answer:
        """Ask a question and wait for the whole answer; see `ask`."""
        return self.ask(text, images).finish()

    def retry(self) -> Stream:
        """Answer the last question again; the old answer stays if no new one can start."""
        return self._stream(None, None, Answer())

    def extend(self) -> Stream:
        """Go on with the last answer, which was cut; raises UsageError if there is no turn."""
        turn = self.conversation.last()
        answer = Answer(turn.answer_text, beginning=turn.answer or ())
        return self._stream(None, self.models.target.chunks(self.conversation), answer)

    def _stream(
        self, message: Message | None, chunks: Sequence[Chunk] | None, answer: Answer
    ) -> Stream:
        return Stream(self._take_turn(message, chunks, answer), answer)

    def resume(self, conversation: Conversation) -> None:
        """Continue a saved conversation.

        Raises UsageError if an answer's tokens do not decode to its text (another tokenizer), if
        they are outside the target's vocabulary, or if the target cannot see the images.
        """
        for number, turn in enumerate(conversation.turns, start=1):
            self.models.target.require_sight(turn.pictures)
            self.models.target.require_own_answer(number, turn)
        self.conversation = conversation

    def _take_turn(
        self, message: Message | None, chunks: Sequence[Chunk] | None, answer: Answer
    ) -> Events:
        """Answer a question, or the last one again; if that fails at once, no turn changes."""
        turns, previous = list(self.conversation.turns), self.answer
        if message is None:
            self.conversation.reopen()
        else:
            if message.is_empty:
                raise UsageError("the question is empty: give a text or an image")
            self.models.target.require_sight(message.pictures)
            self.conversation.add(message)
        try:
            with any_plugin_errors():
                yield from self._answer_turn(chunks, answer)
        except Exception:
            if not answer.rounds:
                self.conversation.reopen()
                self.answer = previous
            raise
        finally:
            if self.conversation.is_open or (message is None and not answer.rounds):
                self.conversation.turns[:] = turns

    def _answer_turn(self, chunks: Sequence[Chunk] | None, answer: Answer) -> Events:
        start, models = perf_counter(), self.models
        previous, self.answer = self.answer, answer
        chunks = chunks or models.target.chunks(self.conversation)
        answer.notes += models.target.clip_notes(self.conversation.turns[-1])
        answer.statistics.prompt_tokens = length = models.positions(chunks)
        limit = self.options.max_new_tokens
        most = min(limit, models.target.room(length, min(limit, TYPICAL_ANSWER)))
        models.backend.reset_peak_memory()
        try:
            drafter = self._select_drafter(chunks)
            answer.statistics.cached_tokens = self._session.cached_tokens(chunks)
            with draft_errors(answer.drafting.spec):
                prefill = self._session.prefill(chunks, drafter)
                yield from answer.statistics.time_items("prefill", prefill)
                with answer.statistics.timing("prefill"):
                    models.backend.synchronize()
                yield from self._decode(drafter, most)
        except BackendError:
            self.close()  # they may fill the memory, or on MLX hold a forward that failed
            raise
        finally:
            if answer.plain_reason and not previous.plain_reason:
                answer.notes.append(answer.plain_reason)
            is_complete = answer.finish_reason == "stop"
            self.conversation.answer(self._answer_ids(answer), answer.text, complete=is_complete)
            if answer.drafting.spec.endswith(LOOKUP.spec) and answer.token_ids:
                models.remember(chunks, answer.token_ids)
            answer.statistics.peak_memory_bytes = models.backend.peak_memory()
            answer.statistics.seconds["load"] = models.load_seconds
            answer.statistics.seconds["total"] = perf_counter() - start
            if self._sequences:  # else the probe of exact rows was interrupted
                answer.plain_seconds = self._plain_seconds()
                size = models.cache_bytes(self._session.target.length, self._drafter)
                self._most_bytes = max(self._most_bytes, size)

    def _answer_ids(self, answer: Answer) -> tuple[int, ...]:
        """The tokens of an answer's text, without the stop token."""
        target = self.models.target
        ids = (*answer.beginning, *(id_ for id_ in answer.token_ids if id_ not in target.stop))
        text = target.tokenizer.decode(ids)
        # The token that completes a stop string may begin within the answer's text, which begins
        # without the space that tokenizers put before a word.
        cut = self.options.stop_strings and answer.text not in (text, text.removeprefix(" "))
        return answer_ids(answer.text, target.template, target.tokenizer) if cut else ids

    def positions(self, conversation: Conversation) -> int:
        """The number of positions that a conversation takes in the target's context."""
        return self.models.positions(self.models.target.chunks(conversation))

    def _select_drafter(self, chunks: Sequence[Chunk]) -> OpenDrafter | None:
        """The drafter for this answer, the last answer's if the views are; encodes new images."""
        models, options, answer = self.models, self.options, self.answer
        images = list(pictures(self._session.new_chunks(chunks)))
        drafting = drafting_for(models, options, chunks) if self.speculate else PLAIN
        if features := models.target.features:
            self._prepare_images("vision", features, images)
            answer.notes += dict.fromkeys(filter(None, map(features.note, images)))
        if "C" in drafting.letters:  # before it is known whether C fits: that is its length
            self._prepare_images("caption", models.caption, images)
        answer.drafting, notes = fit_drafting(models, options, drafting, chunks)
        answer.notes += notes
        answer.weights = () if answer.drafting == LOOKUP else answer.drafting.weights
        if models.draft and models.draft.features and {*answer.drafting.letters} & {"M", "P"}:
            self._prepare_images("vision", models.draft.features, images)
        if answer.drafting == PLAIN:
            return None
        is_auto = options.gamma == "auto"  # which may have another tree
        # Another sampling closes the drafter: see `change`.
        key = answer.drafting, options.adaptive, options.tree, options.overflow, is_auto
        if self._drafter is None or self._drafter_key != key:
            is_head = models.head is not None and answer.drafting != LOOKUP
            if is_head and not self._has_states:
                self._session.restart()  # a head needs the hidden states of all columns
            self._drafter = open_drafter(models, options, answer.drafting, self._session.target)
            self._drafter_key, self._has_states = key, self._has_states or is_head
        return self._drafter

    def _prepare_images(
        self, stage: str, compute: Callable[[Picture], object], images: Sequence[Picture]
    ) -> None:
        """Compute something of each image, and count the time as a stage."""
        for picture in images:
            with self.answer.statistics.timing(stage):
                compute(picture)
                self.models.backend.synchronize()

    def _decode(self, drafter: OpenDrafter | None, max_tokens: int) -> Iterator[Piece]:
        options, answer = self.options, self.answer
        target, session = self.models.target, self._session
        text = text_after(answer, self.context, target.tokenizer, options.stop_strings)
        draft_length = self.models.draft_length(options, drafter.drafting if drafter else None)
        verifier = options.constraint and ConstrainedTarget(
            session.target, options.constraint(), options.sampling, target.stop, answer.beginning
        )
        rounds = session.decode(
            draft_length,
            max_tokens=max_tokens,
            stop=target.stop,
            seed=options.seed,
            likeliest=options.logprobs,
            work=self.models.work_seconds,
            verifier=verifier,
        )
        cut = None
        # Equal items may be what a constraint asks for, and a cut would break it.
        repeat_limit = 0 if verifier else options.repeat_limit
        try:
            for round_ in answer.statistics.time_items("decode", rounds):
                cut = repetition_end(answer.token_ids, round_.tokens, repeat_limit)
                part, pieces = text.push(round_.until(cut))
                answer.add(part)
                if not round_.drafted:
                    self._plain_rounds.append(round_.cost_seconds)
                yield from map(answer.show, pieces)
                if cut or text.is_over:
                    break
        finally:
            answer.plain_reason = draft_length.plain_reason()
        last_pieces = text.finish()
        if text.is_over:
            answer.text = answer.text[: len(answer.text) - text.excess]
        if drafter:
            answer.weights = drafter.weights() or answer.weights
            if drafter.room() == 0:
                now = "lookup alone drafts" if drafter.drafting.with_lookup else "decoding is plain"
                answer.notes.append(f"the draft's positions are used up: {now} after them")
        has_stopped = text.is_over or answer.token_ids[-1] in target.stop
        answer.finish_reason = "stop" if has_stopped else "repetition" if cut else "length"
        if answer.finish_reason == "repetition":
            answer.notes.append(
                f"stopped, for the last {options.repeat_limit} tokens repeat themselves; "
                "`repeat_limit=0` lets answers go on"
            )
        yield from map(answer.show, last_pieces)

    def _plain_seconds(self) -> float | None:
        """Time of a plain round: of this chat's latest, or as it was measured before."""
        if self._plain_rounds:
            return median_low(self._plain_rounds)
        calibration = self.models.calibration(self.models.exact_rows(self.options.exact))
        return at_context(calibration.target, self._session.target.length).get(1)
