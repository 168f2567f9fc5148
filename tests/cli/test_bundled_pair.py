"""The pair that comes with the package: whole, equal on both backends, and not blind."""

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.cards import card, present
from mmspec.diagnostics.single_turn import answer_once
from support.bundled import DRAWINGS, SAMPLES, question

SEEN = [
    ("disc.png", "What shape is the red object?", "circle"),
    ("box-and-triangle.png", "Where is the triangle?", "bottom right"),
    ("three-discs.png", "How many circles are there?", "three"),
    ("cross-and-square.png", "What is on the left?", "square"),
]


pytestmark = pytest.mark.skipif(
    present(card("mini"), "torch") is None, reason="the weights of mini are not in the tree"
)


@pytest.fixture(scope="module")
def engines():
    """The pair on each backend."""
    return {name: load("mini", "mini-draft", backend=name) for name in ("torch", "mlx")}


@pytest.mark.parametrize(("image", "text", "answer"), SEEN)
def test_it_sees_drawings_that_its_world_did_not_make(engines, image, text, answer):
    asked = question(DRAWINGS / image, text)
    assert answer in answer_once(engines["torch"], asked, Options()).text


def test_both_backends_say_the_same_with_every_view_and_without(engines):
    asked = question(SAMPLES / "shapes.png", "What is in the picture?")
    answers = [
        answer_once(engines[name], asked, Options(drafting=drafting)).token_ids
        for name, drafting in [("torch", "none"), ("torch", "MTCP"), ("mlx", "MTCP")]
    ]
    assert answers[0] == answers[1] == answers[2]
