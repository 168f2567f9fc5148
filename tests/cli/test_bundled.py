"""The pair and the heads that come with the package: whole, equal on both backends, not blind."""

from dataclasses import replace

import pytest

from mmspec.chat.engine import load
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.diagnostics.check import answer_once
from support.bundled import DRAWINGS, SAMPLES, question

SEEN = [
    ("disc.png", "What shape is the red object?", "circle"),
    ("box-and-triangle.png", "Where is the triangle?", "bottom right"),
    ("three-discs.png", "How many circles are there?", "three"),
    ("cross-and-square.png", "What is on the left?", "square"),
]


@pytest.fixture(scope="module")
def engines():
    """The pair on each backend."""
    return {name: load("mini", "mini-draft", backend=name) for name in ("torch", "mlx")}


def test_an_answer_keeps_its_tokens_where_no_stop_string_came(engines):
    options = Options(sampling=Sampling(20.0), seed=2, max_new_tokens=30)
    chat = engines["torch"].chat(replace(options, stop_strings=("no such text",)))
    answer = chat.reply("What is this?")
    assert [*chat.conversation.turns[0].answer] == answer.token_ids


@pytest.mark.parametrize(("image", "text", "answer"), SEEN)
def test_it_sees_drawings_that_its_world_did_not_make(engines, image, text, answer):
    asked = question(DRAWINGS / image, text)
    assert answer in answer_once(engines["torch"], asked, Options()).text


def test_both_backends_say_the_same_with_every_view_and_without(engines):
    asked = question(SAMPLES / "shapes.png", "What is in the picture?")
    plain = answer_once(engines["torch"], asked, Options(drafting="none"))
    drafted = answer_once(engines["mlx"], asked, Options(drafting="MTCP"))
    assert plain.token_ids == drafted.token_ids


KINDS = "msd", "eagle", "eagle3", "medusa", "hydra", "flash", "dspark"
HEADS = [f"mini-{kind}" for kind in KINDS]
QUESTIONS = [
    question(SAMPLES / "shapes.png", "Describe this image in detail."),
    question(SAMPLES / "chart.png", "What does it show?"),
]


@pytest.fixture(scope="module")
def plain():
    engine = load("mini", "none", backend="torch")
    return [answer_once(engine, each, Options(drafting="none")).token_ids for each in QUESTIONS]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        (HEADS[0], "torch"),
        ("mini-flash", "mlx"),
        *(pytest.param(name, "torch", marks=pytest.mark.slow) for name in HEADS[1:]),
    ],
)
def test_every_head_keeps_the_answer_as_chain_and_as_tree(plain, name, backend, monkeypatch):
    monkeypatch.setattr("mmspec.chat.engine.measure_first_costs", measure_first_costs)
    engine = load("mini", name, backend=backend)
    for asked, expected, tree in zip(QUESTIONS, plain, (None, Tree()), strict=True):
        drafted = answer_once(engine, asked, Options(gamma=4, tree=tree))
        assert drafted.token_ids == expected
        # A head that foretells nothing keeps one token a round.
        assert len(expected) / len(drafted.rounds) > 1.7
