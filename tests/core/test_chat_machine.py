"""Any sequence of turns, images, settings, interrupts and faults: answers stay a cold run's."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.ground.errors import ContextError
from mmspec.prompt.conversation import Conversation
from support import factory_layouts
from support.faults import Fault
from support.scripted_engine import SEES, picture, scripted_engine, with_positions

PICTURES = [picture(seed) for seed in range(4)]
WORDS = [None, "none", "M", "T", "CP", "MTCP", "lookup"]
texts = some.sampled_from(["What is this?", "Why?", "And these two?"])
images = some.lists(some.sampled_from(PICTURES), max_size=3)


class Chats(RuleBasedStateMachine):
    """One chat that goes through everything, and a new one for every answer."""

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        factory_layouts.write_tokenizer(Path(self.folder.name))
        self.left = -1

    def teardown(self):
        self.folder.cleanup()

    def fault(self, name):
        self.left -= 1
        if self.left == 0:
            raise Fault(name)

    @initialize(
        positions=some.sampled_from([40, 90, 600]),
        word=some.sampled_from(WORDS),
        sampled=some.booleans(),
    )
    def open(self, positions, word, sampled):
        engine = scripted_engine(Path(self.folder.name), draft=with_positions(SEES, positions))
        for loaded in (engine.target, engine.draft):
            loaded.model.fault = self.fault
        # Drawn answers are a cold run's only with the same draft: a twin of itself, not of none.
        sampling = Sampling(1.0) if sampled else Sampling()
        options = Options(drafting=word, gamma=2, max_new_tokens=5, sampling=sampling)
        self.chat = engine.chat(options)

    @property
    def answered(self):
        return bool(self.chat.conversation.turns)

    def cold(self):
        options = self.chat.options
        if options.sampling.greedy:
            options = replace(options, drafting="none")
        past = Conversation(None, list(self.chat.conversation.turns))
        fresh = self.chat.models.chat(options, past)
        fresh.speculate = self.chat.speculate
        return fresh

    def answers_like(self, chat, fresh, text, images):
        try:
            expected = fresh.reply(text, images).token_ids
        except ContextError:
            expected = None
        turns = list(chat.conversation.turns)
        try:
            assert chat.reply(text, images).token_ids == expected
        except ContextError:
            assert expected is None
            assert chat.conversation.turns == turns

    @rule(text=texts, images=images)
    def ask(self, text, images):
        self.answers_like(self.chat, self.cold(), text, images)

    @rule(text=texts, images=images, events=some.integers(0, 8))
    def interrupt(self, text, images, events):
        answering = self.chat.ask(text, images)
        try:
            for _ in zip(range(events), answering, strict=False):
                pass
        except ContextError:
            return
        answering.close()
        assert not self.chat.conversation.is_open

    @rule(text=texts, images=images, call=some.integers(1, 40))
    def break_at(self, text, images, call):
        self.left = call
        with suppress(Fault, ContextError):
            self.chat.reply(text, images)
        self.left = -1
        assert not self.chat.conversation.is_open

    @precondition(lambda self: self.answered)
    @rule()
    def retry(self):
        turn = self.chat.conversation.turns.pop()
        fresh = self.cold()
        self.chat.conversation.turns.append(turn)
        expected = list(fresh.send(turn.question)) and fresh.answer.token_ids
        assert (list(self.chat.retry()) and self.chat.answer.token_ids) == expected

    @precondition(lambda self: self.answered)
    @rule()
    def undo(self):
        self.chat.conversation.undo()

    @rule()
    def reset(self):
        self.chat.conversation.reset()

    @rule()
    def switch(self):
        self.chat.speculate = not self.chat.speculate

    @rule(
        word=some.sampled_from(WORDS),
        gamma=some.integers(1, 4),
        overflow=some.sampled_from(["auto", "pool", "drop", "run"]),
    )
    def choose(self, word, gamma, overflow):
        changed = replace(self.chat.options, drafting=word, gamma=gamma, overflow=overflow)
        self.chat.options = changed


TestChats = Chats.TestCase
TestChats.settings = settings(max_examples=25, stateful_step_count=15, derandomize=True)
