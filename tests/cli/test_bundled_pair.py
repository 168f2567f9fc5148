"""The pair that comes with the package: whole, equal on both backends, and not blind."""

import json
from pathlib import Path

import pytest
from commands import Run

from mmspec.cards import card, present

DRAWINGS = Path(__file__).parents[1] / "drawings"
SAMPLES = Path(__file__).parents[2] / "models" / "mmspec_models" / "samples"
SEEN = [
    ("disc.png", "What shape is the red object?", "circle"),
    ("disc.png", "What colour is the background?", "white"),
    ("box-and-triangle.png", "What colour is the square?", "blue"),
    ("box-and-triangle.png", "Where is the triangle?", "bottom right"),
    ("three-discs.png", "How many circles are there?", "three"),
    ("three-discs.png", "What colour is the background?", "navy"),
    ("cross-and-square.png", "What colour is the cross?", "black"),
    ("cross-and-square.png", "What is on the left?", "square"),
]


pytestmark = pytest.mark.skipif(
    present(card("mini"), "torch") is None, reason="the weights of mini are not in the tree"
)


def told(run: Run, image: Path, question: str, *options: str) -> dict:
    result = run("generate", image, "--prompt", question, "--model", "mini", "--json", *options)
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


@pytest.mark.parametrize(("image", "question", "answer"), SEEN)
def test_it_sees_drawings_that_its_world_did_not_make(run: Run, image, question, answer):
    assert answer in told(run, DRAWINGS / image, question, "--backend", "torch")["text"]


@pytest.mark.parametrize("image", ["shapes.png", "chart.png", "word.png"])
def test_both_backends_say_the_same_with_every_view_and_without(run: Run, image):
    question = "What is in the picture?"
    answers = [
        told(run, SAMPLES / image, question, "--backend", backend, "--drafting", word)["token_ids"]
        for backend, word in [("torch", "none"), ("torch", "MTCP"), ("mlx", "MTCP")]
    ]
    assert answers[0] == answers[1] == answers[2]


def test_the_draft_is_kept_more_often_with_the_image_than_without(run: Run):
    rates = {
        word: sum(
            told(run, DRAWINGS / image, question, "--drafting", word)["stats"]["block_efficiency"]
            for image, question, _ in SEEN
        )
        for word in ("M", "T")
    }
    assert rates["M"] > rates["T"]
