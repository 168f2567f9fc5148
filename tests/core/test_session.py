"""Sessions feed what is new and nothing else, whatever came before."""

import pytest

from mmspec.chat.session import PREFILL_TOKENS, OpenDrafter, Prefilled, Session
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import Branch, Views, parse_drafting
from mmspec.families.grid import Grid
from mmspec.prompt.chunks import Chunk
from support.scripted import ScriptedDrafter, ScriptedFeatures, ScriptedTarget, items, logits
from support.scripted_engine import SEES, picture
from support.stand_ins import Fault

M = Branch("M")
VOCABULARY = 11
NEWLINE = 8
A, B = picture(1), picture(2)
SEEN = Chunk((1, 5, A, 6, 7))
OTHER = Chunk((1, 5, B, 6, 7))
MORE = Chunk((4, 4, 4))


VIEWS = Views(
    NEWLINE,
    lambda seen: ScriptedFeatures(seen.name, 16),
    lambda _: Grid(4, 4),
    lambda picture: [9, 9, 9],
)


class Drafting(Session):
    """A session of scripted sequences that always drafts with the same drafter, or with none."""

    def __init__(self, draft=None):
        super().__init__(ScriptedTarget(), VIEWS, M)
        self.draft = draft

    def prefill(self, chunks):
        return super().prefill(chunks, self.draft)


def session(word="MT"):
    """A session that drafts `word`, or plain where there is none."""
    if not word:
        return Drafting()
    drafting = parse_drafting(word, SEES)
    return Drafting(OpenDrafter(drafting, VIEWS, ScriptedDrafter(len(word))))


def prefill(opened, *chunks):
    return list(opened.prefill(chunks))


def answer(opened, count=6, stop=(), gamma=3):
    rounds = opened.decode(FixedDraftLength(gamma), max_tokens=count, stop=stop, seed=0)
    return [token for each in rounds for token in each.tokens]


def held(opened):
    """Everything that is fed, by the sequence it stands in."""
    side = opened.draft
    return opened.target.sequence, side.drafter.sequences if side else []


def cold(*chunks, word="MT"):
    opened = session(word)
    prefill(opened, *chunks)
    return opened


def greedy(opened, count):
    said = list(opened.target.sequence)
    for _ in range(count):
        said.append(int(logits(0, said, VOCABULARY).argmax()))
    return said[len(opened.target.sequence) :]


def said(tokens):
    return Chunk(tuple(tokens), is_answer=True)


@pytest.mark.parametrize("word", ["", "M", "MT", "MTCP"])
def test_the_next_turn_feeds_only_what_is_new(word):
    opened = session(word)
    prefill(opened, SEEN)
    tokens = answer(opened)
    side = opened.draft
    fed = opened.target.fed, side.drafter.fed if side else 0
    chunks = SEEN, said(tokens), MORE
    assert opened.cached_tokens(chunks) == 20 + 6 - 1
    assert opened.new_chunks(chunks) == (MORE,)
    prefill(opened, *chunks)
    assert opened.target.fed - fed[0] == 3
    assert side is None or side.drafter.fed - fed[1] == 3
    assert held(opened) == held(cold(*chunks, word=word))


def test_going_back_feeds_nothing_and_going_on_elsewhere_only_that():
    opened = session()
    prefill(opened, SEEN)
    tokens = answer(opened)
    fed = opened.target.fed
    prefill(opened, SEEN)
    assert opened.target.fed == fed
    assert answer(opened) == tokens
    prefill(opened, SEEN, said(tokens[:2]), MORE)
    assert opened.target.fed == fed + 3
    assert held(opened) == held(cold(SEEN, said(tokens[:2]), MORE))


ASKED = [(1, 5, A, 6, 2), (1, 5, A, 6), (1, 5, A, 6, 7, 3), (1, 5, A, 6, 7, B, 3), (1, 5, A)]
ASKED += [(1, A, 6, 7), (1, 5, 6, 7), (A, 1, 5), (1, 5, B, 6, 7)]


@pytest.mark.parametrize("content", ASKED)
def test_of_another_prompt_only_what_differs_is_fed(content):
    opened, chunk = session(""), Chunk(content)
    prefill(opened, SEEN)
    answer(opened)
    fed, target = opened.target.fed, items(VIEWS.segment(SEEN, M))
    wanted = items(VIEWS.segment(chunk, M))
    pairs = list(zip(target, wanted, strict=False))
    shared = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    progress = prefill(opened, chunk, MORE)
    assert opened.target.fed - fed == len(wanted) - shared + 3
    assert progress[-1] == Prefilled(len(wanted) - shared + 3, len(wanted) - shared + 3)
    assert held(opened) == held(cold(chunk, MORE, word=""))
    assert answer(opened) == greedy(cold(chunk, MORE, word=""), 6)


def test_where_bits_depend_on_how_a_prompt_is_cut_chunks_are_fed_whole():
    opened = Session(ScriptedTarget(), VIEWS, M, whole_chunks=True)
    prefill(opened, SEEN, MORE)
    fed = opened.target.fed
    assert opened.cached_tokens((SEEN, Chunk((4, 4, 5)))) == 20 - 1
    prefill(opened, SEEN, Chunk((4, 4, 5)))
    assert opened.target.fed == fed + 3


def test_a_long_conversation_is_fed_in_few_pieces(monkeypatch):
    turns = [chunk for _ in range(300) for chunk in (MORE, said([1, 2]))]
    opened, extended = session(""), list[int]()
    extend = opened.target.extend
    monkeypatch.setattr(opened.target, "extend", lambda it: (extended.append(len(it)), extend(it)))
    prefill(opened, *turns, SEEN)
    assert extended == [512, 512, 478, 16, 2]
    assert opened.cached_tokens(turns) == 1500 - 1
    assert prefill(opened, *turns[:-2], OTHER)[-1].total == 20


def test_a_stop_token_is_not_held_as_part_of_the_answer():
    whole = greedy(cold(SEEN), 12)
    for at, token in enumerate(whole):
        opened = cold(SEEN)
        tokens = answer(opened, 12, stop={token})
        assert tokens == whole[: whole.index(token) + 1]
        chunks = SEEN, said(tokens[:-1]), MORE
        assert opened.cached_tokens(chunks) == max(20 + whole.index(token) - 1, 0), at
        assert opened.new_chunks(chunks) == (MORE,)
        prefill(opened, *chunks)
        assert held(opened) == held(cold(*chunks))


def test_long_prompts_come_in_pieces_that_can_be_dropped_between():
    long = Chunk((*(i % 7 for i in range(2 * PREFILL_TOKENS + 5)), A, 6))
    steps = [each.done for each in session("").prefill([long])]
    assert steps == [512, 1024, 1029, 1045, 1046]
    for dropped in range(1, 6):
        opened = session()
        going = opened.prefill([long])
        for _ in range(dropped):
            next(going)
        going.close()
        prefill(opened, MORE)
        assert held(opened) == held(cold(MORE))


class FaultAt:
    """Counts calls, and raises at one of them; at 0, never."""

    def __init__(self, call=0):
        self.call, self.calls = call, 0

    def __call__(self, name):
        self.calls += 1
        if self.calls == self.call:
            raise Fault(name)


def turn(opened, fault, tokens):
    opened.target.fault = opened.draft.drafter.fault = fault
    prefill(opened, SEEN, said(tokens), OTHER)
    answer(opened)


def test_a_fault_at_any_call_leaves_what_a_cold_run_has():
    counted = FaultAt()
    opened = cold(SEEN)
    tokens = answer(opened)
    turn(opened, counted, tokens)
    assert counted.calls > 10
    for call in range(1, counted.calls + 1):
        opened = cold(SEEN)
        answer(opened)
        with pytest.raises(Fault):
            turn(opened, FaultAt(call), tokens)
        opened.target.fault = opened.draft.drafter.fault = FaultAt()
        prefill(opened, SEEN, said(tokens), MORE)
        assert held(opened) == held(cold(SEEN, said(tokens), MORE)), call
        assert answer(opened) == greedy(cold(SEEN, said(tokens), MORE), 6)
