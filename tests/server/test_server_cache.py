"""Stateless requests reuse what they share with earlier ones, and say what a cold run says."""

from cProfile import Profile
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmspec.chat.answer import Piece
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec_server.decoding import ConversationCache, answer
from mmspec_server.prompts import prepare
from support.live_server import live, shown, text_of, words
from support.scripted_engine import SEES, picture, scripted_engine, with_positions

OPTIONS = Options(max_new_tokens=8, gamma=3)
LARGE = 2**30


@pytest.fixture(scope="module")
def engine(directory):
    return scripted_engine(directory)


def dialogue(*questions, answers=()):
    messages = (Message("user", tuple(parts)) for parts in questions)
    pairs = zip(messages, [*answers, ""], strict=True)
    return Conversation(None, [Turn(message, None, text) for message, text in pairs])


class Client:
    """Asks one cache, and a new one for what a cold run says."""

    def __init__(self, engine, count=4, size=LARGE):
        self.engine, self.cache = engine, ConversationCache(engine, count, size)

    def ask(self, asked, options=OPTIONS, cache=None):
        """The text, and the statistics."""
        cache = self.cache if cache is None else cache
        *events, finished = answer(cache, prepare(self.engine, asked, ""), options)
        texts = (event.text for event in events if isinstance(event, Piece))
        return "".join(texts), finished.statistics

    def check(self, asked, options=OPTIONS):
        """The statistics of an answer, whose text is that of a cold plain run."""
        text, statistics = self.ask(asked, options)
        cold = ConversationCache(self.engine, 1, LARGE)
        plain = replace(options, drafting="none")
        assert text == self.ask(asked, plain, cold)[0]
        return statistics


A, B = picture(1), picture(2)


def test_the_next_turn_costs_its_own_tokens_alone(engine):
    client, first = Client(engine), ["what is in the picture?", A]
    text, statistics = client.ask(dialogue(first))
    assert statistics.cached_tokens == 0
    prompt = statistics.prompt_tokens
    asked = dialogue(first, ["how many?"], answers=[text])
    answered, more = (chunk.parts[0] for chunk in prepare(engine, asked, "").chunks[1:])
    statistics = client.check(asked)
    # The scripted models answer in other tokens than the tokenizer's: those are fed again.
    new = statistics.prompt_tokens - statistics.cached_tokens
    assert len(more) < new <= len(more) + len(answered) + 1
    assert statistics.cached_tokens >= prompt - 1
    assert client.check(asked, replace(OPTIONS, max_new_tokens=60)).tokens > 40
    again = client.check(asked, replace(OPTIONS, repeat_limit=90))
    assert again.cached_tokens == again.prompt_tokens - 1
    assert len(client.cache) == 1


def test_a_long_history_that_is_cached_costs_calls_in_its_proportion(directory):
    """All of the host's part; the forward's part is the model's own."""
    client = Client(scripted_engine(directory, with_positions(SEES, 100_000)))
    plain = replace(OPTIONS, drafting="none", max_new_tokens=1)

    def calls(turns):
        question = ["what is in the picture?"]
        asked = dialogue(*[question] * turns, answers=["a red circle."] * (turns - 1))
        client.ask(asked, plain)
        profile = Profile()
        statistics = profile.runcall(client.ask, asked, plain)[1]
        assert statistics.cached_tokens == statistics.prompt_tokens - 1 > 10 * turns
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(400) < 5 * calls(100)


def test_a_short_question_leaves_the_long_conversation_that_it_begins_its_cache(engine):
    client, short = Client(engine), dialogue(["what is this?"])
    long = dialogue(["what is this?"], ["how many? " * 40], answers=["a red circle."])
    client.check(long)
    assert client.check(short).cached_tokens == 0
    for asked in (long, short):
        again = client.check(asked)
        assert again.cached_tokens == again.prompt_tokens - 1
    assert len(client.cache) == 2


def test_conversations_in_turn_keep_their_caches_up_to_the_count(engine):
    first, second, third = (dialogue(["what is this? " * n, picture(n)]) for n in (3, 5, 9))
    client = Client(engine, count=2)
    for asked in (first, second, first, third):
        client.check(asked)
    assert client.check(first).cached_tokens > 30
    assert client.check(second).cached_tokens < 10  # the least recently used has left
    assert len(client.cache) == 2


def test_bytes_are_limited(engine):
    asked = dialogue(["what is this?", A])
    none, some = Client(engine, size=1), Client(engine)
    for client in (none, some):
        client.check(asked)
    assert (len(none.cache), none.cache.bytes) == (0, 0)
    assert none.check(asked).cached_tokens == 0
    fitting = Client(engine, size=some.cache.bytes)
    fitting.check(asked)
    assert len(fitting.cache) == 1
    assert len(Client(engine, size=some.cache.bytes - 1).cache) == 0


def test_what_a_rewind_leaves_allocated_is_counted(engine):
    client, cold, short = Client(engine), Client(engine), dialogue(["how many? " * 40])
    client.ask(dialogue(["how many? " * 65]))
    size = client.cache.bytes
    assert client.ask(short)[1].cached_tokens > 100
    cold.ask(short)
    assert client.cache.bytes == size > cold.cache.bytes


def test_other_sampling_has_a_cache_of_its_own(engine):
    client, asked = Client(engine), dialogue(["what is this?", A])
    warm = replace(OPTIONS, sampling=Sampling(1.0), seed=5)
    client.check(asked)
    assert client.check(asked, warm).cached_tokens == 0
    assert client.check(asked).cached_tokens > 16
    again = client.check(asked, replace(warm, seed=6, max_new_tokens=5))
    assert again.cached_tokens > 16


def test_an_answer_that_breaks_or_is_dropped_leaves_a_sound_cache(engine):
    client, asked = Client(engine), dialogue(["what is this?", A])
    for events in range(1, 6):
        dropped = answer(client.cache, prepare(engine, asked, ""), OPTIONS)
        for _ in range(events):
            next(dropped)
        dropped.close()
        client.check(asked)
        assert len(client.cache) == 1


WORDS = ["what is this?", "what is that?", "how many?", "a", "and"]
questions = st.lists(st.sampled_from([*WORDS, A, B]), min_size=1, max_size=3)
turns = st.lists(questions, min_size=1, max_size=3)
requests = st.lists(
    st.tuples(turns, st.sampled_from([OPTIONS, replace(OPTIONS, sampling=Sampling(1.0))])),
    max_size=8,
)


@settings(max_examples=25)
@given(requests, st.integers(1, 3))
def test_whatever_came_before_the_text_is_a_cold_run_s(engine, asked, count):
    client = Client(engine, count)
    for questions, options in asked:
        answers = ["        x = 1", "three"][: len(questions) - 1]
        client.check(dialogue(*questions, answers=answers), options)
    assert len(client.cache) <= count


def test_the_drafter_keeps_its_cache_too(directory):
    engine = scripted_engine(directory)
    with live(lambda: engine, OPTIONS) as server:
        asked = [{"role": "user", "content": [shown("red"), words("What is it?")]}]
        text = text_of(server.chat(asked).json())
        [drafter] = engine.draft.model.branches
        fed = drafter.fed
        more = [{"role": "assistant", "content": text}, {"role": "user", "content": "More?"}]
        server.chat([*asked, *more], seed=3, max_tokens=5)
    assert engine.draft.model.branches == [drafter]
    assert drafter.fed - fed < 40
