"""The text of an answer: the same in rounds of any size, up to the first stop string."""

from hypothesis import example, given
from hypothesis import strategies as st

from mmspec.chat.answer_text import AnswerText
from mmspec.decoding.statistics import Likelihood, Round
from mmspec.prompt.text_stream import TextStream

WORDS = [" a", "b", "ab", " ", "<0xC3>", "<0xA9>", "", "c a", "b\n"]
BYTES = {WORDS.index("<0xC3>"): 0xC3, WORDS.index("<0xA9>"): 0xA9}

tokens = st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=14)
stops = st.lists(st.text("abcé ", min_size=1, max_size=4), max_size=3)


def decoded(ids):
    content = b"".join(bytes([BYTES[id]]) if id in BYTES else WORDS[id].encode() for id in ids)
    return content.decode(errors="replace")


def read(rounds, stops):
    """The text with drafted letters in capitals, the tokens that count, and those reported."""
    text, counted, shown, reported = (
        AnswerText(TextStream(decoded, WORDS.__getitem__), stops),
        0,
        "",
        [],
    )
    for ids, accepted in rounds:
        likelihoods = tuple(Likelihood(id, -1.0) for id in ids)
        round_, pieces = text.push(Round(ids, 4, 4, accepted, likelihoods=likelihoods))
        counted += len(round_.tokens)
        shown, reported = add(pieces, shown, reported)
        if text.is_over:
            break
    shown, reported = add(text.finish(), shown, reported)
    return shown, counted, reported, text.is_over


def add(pieces, shown, reported):
    shown += "".join(piece.accepted.upper() + piece.own for piece in pieces)
    return shown, [*reported, *(each.token for piece in pieces for each in piece.likelihoods)]


@given(tokens, stops, st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=14))
@example([0, 1, 7, 1], [" a", "bc"], [(3, 2)])
@example([4, 5, 1], ["b"], [(3, 3)])
def test_drafts_change_neither_text_nor_tokens_nor_likelihoods(ids, stops, sizes):
    rounds, rest = [], ids
    for size, accepted in [*sizes, *[(1, 0)] * len(ids)]:
        run, rest = rest[:size], rest[size:]
        rounds += [(run, min(accepted, len(run)))] if run else []
    shown, counted, reported, is_over = read(rounds, stops)
    plain, *others = read([([id], 0) for id in ids], stops)
    assert (shown.lower(), [counted, reported, is_over]) == (plain, others)
    # Plain decoding, from the letters: the text ends before the stop string that is whole first.
    whole = decoded(ids).removeprefix(" ")
    assert plain == (whole if not is_over else whole[: len(plain)])
    assert is_over == any(whole[len(plain) :].startswith(stop) for stop in stops) or not is_over
    assert is_over == any(stop in whole for stop in stops)
    assert reported == (ids[: len(reported)] if is_over else ids)
    assert len(decoded(reported).removeprefix(" ")) >= len(plain)


def test_withheld_text_keeps_its_origin():
    rounds = [([1, 1], 1), ([0, 1], 1), ([1], 0)]  # Bb, " Ab", b
    shown, *_ = read(rounds, ["bb ab?"])
    assert shown == "Bb Abb"
