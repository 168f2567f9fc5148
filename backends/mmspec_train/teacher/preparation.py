"""Fills a teacher cache: answers conversations and computes hidden states, once."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.decoding.sampling import Sampling
from mmspec_train.run.log import Log
from mmspec_train.run.prefetch import prefetch
from mmspec_train.run.run_manifest import check_manifest, claim
from mmspec_train.settings import DataSettings
from mmspec_train.teacher.answers import answer_all
from mmspec_train.teacher.batch import StoredStates
from mmspec_train.teacher.batch_source import ConversationBatches
from mmspec_train.teacher.cache import TeacherCache
from mmspec_train.teacher.corpus import Corpus
from mmspec_train.teacher.records import ConversationRecord, TokenizedConversation, tokenize
from mmspec_train.teacher.teacher import InputFormat, Teacher

ANSWER_BATCHES_PER_POOL = 8
"""Number of `--answer-rows` batches whose conversations are sorted by length together."""
PREFETCHED_POOLS = 2
REMEDY = "give another --answers-dir, or the options of before"


@dataclass(frozen=True)
class TokenizedPools:
    """Pools of tokenized conversations, as a `run.prefetch.Source`."""

    corpus: Corpus
    directory: Path
    """Directory of the target."""
    pool: int
    """Number of conversations in one pool."""
    first: int = 0
    """Number of the first conversation to tokenize."""

    def batches(self, start: int) -> Iterator[list[TokenizedConversation]]:
        """Yield pools from number `start` on, up to the end of the corpus."""
        input_format = InputFormat.read(self.directory, read_config(self.directory))
        for pool in itertools.count(start):
            numbers = range(pool * self.pool, (pool + 1) * self.pool)
            inside = [n for n in numbers if self.corpus.size is None or n < self.corpus.size]
            if not inside:
                return
            yield [self._tokenized(n, input_format) for n in inside if n >= self.first]

    def _tokenized(self, number: int, format_: InputFormat) -> TokenizedConversation:
        exchanges = self.corpus.exchanges(number)
        return tokenize(number, exchanges, format_.template, format_.tokenizer, min(format_.stop))


@dataclass
class Preparation:
    """Fills the cache of one split with answered conversations."""

    cache: TeacherCache
    corpus: Corpus
    teacher: Teacher
    settings: DataSettings
    workers: int = 1
    finished: int = 0
    """Number of conversations answered or left out so far."""
    left_out: int = 0
    """Number of conversations left out by this process as too long for the target."""

    @property
    def stage(self) -> str:
        """The name of this stage in progress lines."""
        return f"answers ({self.cache.split})"

    def check(self) -> None:
        """Raise MmspecError for wrong options or data. Writes nothing."""
        check_manifest(self.cache.manifest_file, self._manifest(), REMEDY)
        self.corpus.check(self.settings.samples)

    def run(self, log: Log) -> None:
        """Add conversations to the cache until it has `samples`."""
        claim(self.cache.manifest_file, self._manifest(), REMEDY)
        records = self.cache.records()
        self.finished = records[-1].number + 1 if records else 0
        if self.settings.samples <= self.finished:
            return
        with log.say_when_stopped(self._stopped):
            self._answer_pools(log)
        if self.left_out:
            log.say(self._left_out())

    def _answer_pools(self, log: Log) -> None:
        wanted = self.settings.samples
        size = ANSWER_BATCHES_PER_POOL * self.settings.answer_rows
        source = TokenizedPools(self.corpus, self.teacher.directory, size, self.finished)
        first = self.finished // size
        log.show(self.stage, self.finished, self.finished / wanted)
        pools = prefetch(source, first, self.workers, PREFETCHED_POOLS)
        for number, conversations in enumerate(pools, start=first):
            self._answer_pool([c for c in conversations if c.number < wanted])
            self.finished = min((number + 1) * size, wanted)
            log.show(self.stage, self.finished, self.finished / wanted)
            if self.finished >= wanted:
                return

    def _stopped(self) -> str:
        return f"{self.stage}: stopped after {self.finished}; the same command goes on from there"

    def _left_out(self) -> str:
        lengths = f"with --answer-tokens {self.settings.answer_tokens} they may take"
        if self.settings.answers == "dataset":
            lengths = "they take"
        return (
            f"{self.stage}: {self.left_out} of {self.finished} conversations left out: {lengths} "
            f"more than the {self._max_columns} positions of the target"
        )

    def _manifest(self) -> dict[str, Any]:
        return {
            "target": self.teacher.digest(),
            "data": self.corpus.about,
            "--answers": self.settings.answers,
            "--temperature": self.settings.temperature,
            "--answer-tokens": self.settings.answer_tokens,
        }

    def _answer_pool(self, conversations: Sequence[TokenizedConversation]) -> None:
        """Answer conversations, similar ones in one batch, and append them in order.

        A batch costs as many turns and columns as its longest conversation has.
        """
        fitting = [c for c in conversations if self._columns_at_most(c) <= self._max_columns]
        self.left_out += len(conversations) - len(fitting)
        ordered = sorted(fitting, key=lambda c: (len(c.prompts), self._columns(c)))
        answered: list[tuple[ConversationRecord, StoredStates | None]] = []
        for first in range(0, len(ordered), rows := self.settings.answer_rows):
            answered += self._answered(ordered[first : first + rows])
        answered.sort(key=lambda pair: pair[0].number)
        self.cache.append(answered, self.settings.cache_bytes)

    def _answered(
        self, conversations: Sequence[TokenizedConversation]
    ) -> list[tuple[ConversationRecord, StoredStates | None]]:
        settings, stop = self.settings, self.teacher.input_format.stop
        stores = bool(settings.cache_bytes)
        if settings.answers == "target":
            sampling = Sampling(settings.temperature)
            options = settings.answer_tokens, sampling, settings.seed
            pairs = answer_all(self.teacher, conversations, *options)
            return [(record, states if stores else None) for record, states in pairs]
        records = [
            conversation.record(conversation.answers, stop) for conversation in conversations
        ]
        states = self._states(records) if stores else [None] * len(records)
        return list(zip(records, states, strict=True))

    def _states(self, records: Sequence[ConversationRecord]) -> list[StoredStates]:
        """Return the target's hidden states for conversations with the dataset's answers."""
        batch = self.teacher.read(self.batches(1).batch(records))
        rows = zip(batch.states, batch.embeddings, batch.lengths, batch.images, strict=True)
        return [
            StoredStates(
                states[:columns],
                embeddings[[column for first, end in spans for column in range(first, end)]],
            )
            for states, embeddings, columns, spans in rows
        ]

    def batches(self, positions_per_batch: int) -> ConversationBatches:
        """Return the cache's conversations in batches."""
        format_, positions = self.teacher.input_format, self.teacher.config.image_tokens
        images = format_.image_id, positions, format_.preprocessing
        seed = self.settings.seed
        return ConversationBatches(self.cache, self.corpus, *images, positions_per_batch, seed)

    @property
    def _max_columns(self) -> int:
        return self.teacher.config.text.max_position_embeddings

    def _columns(self, conversation: TokenizedConversation) -> int:
        record = conversation.record(conversation.answers, frozenset())
        return record.columns(self.teacher.config.image_tokens)

    def _columns_at_most(self, conversation: TokenizedConversation) -> int:
        """Return the most positions a conversation can take with the answers to be made."""
        columns = self._columns(conversation)
        if self.settings.answers == "dataset":
            return columns
        replaced = sum(map(len, conversation.answers))
        return columns - replaced + self.settings.answer_tokens * len(conversation.prompts)
