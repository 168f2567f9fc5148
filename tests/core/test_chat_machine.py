"""Any sequence of turns, images, settings, interrupts and faults: answers stay a cold run's."""

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.ground.errors import ContextError
from support.random_chat import RandomChat, message
from support.scripted_engine import SEES, scripted_engine, with_positions
from support.stand_ins import Fault


class FaultyChat(RandomChat):
    """A chat that is set otherwise at times, and whose models fail at times."""

    left = -1

    def fault(self, name):
        self.left -= 1
        if self.left == 0:
            raise Fault(name)

    def step(self):
        chance = self.draws.random()
        if chance < 0.15:
            self.break_at(self.draws.randint(1, 40))
        elif chance < 0.2:
            self.chat.speculate = not self.chat.speculate
        elif chance < 0.3:
            overflow = self.draws.choice(["auto", "pool", "drop", "run"])
            self.options = replace(self.options, overflow=overflow)
        else:
            super().step()

    def break_at(self, call):
        self.left = call
        with suppress(Fault, ContextError):
            list(self.chat.send(message(self.draws)))
        self.left = -1
        assert not self.chat.conversation.is_open

    def retry(self):
        """Answer the last question again: as far as it had got, the answer is the same."""
        before = [turn.answer or () for turn in self.chat.conversation.turns[-1:]]
        super().retry()
        for answer in before:
            assert self.chat.conversation.turns[-1].answer[: len(answer)] == tuple(answer)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("positions", [40, 90, 600])
def test_every_answer_is_a_cold_run_s(directory, positions, temperature):
    engine = scripted_engine(directory, draft=with_positions(SEES, positions))
    options = Options(max_new_tokens=5, sampling=Sampling(temperature))
    chat = FaultyChat(engine, Random(positions), options)
    for loaded in (engine.target, engine.draft):
        loaded.model.fault = chat.fault
    for _ in range(30):
        chat.step()
    assert chat.counts["compared"] > 5
    assert chat.counts["bug"] == chat.counts["near-tie"] == 0
