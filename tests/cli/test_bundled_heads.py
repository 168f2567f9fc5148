"""The heads that come with the package: they load, keep the answer and foretell it."""

import json
from pathlib import Path

import pytest
from commands import Run

from mmspec.cards import load_cards, present

SAMPLES = Path(__file__).parents[2] / "models" / "mmspec_models" / "samples"
HEADS = ["mini-msd", "mini-eagle", "mini-medusa", "mini-hydra", "mini-flash"]
QUESTIONS = [("shapes.png", "Describe this image in detail."), ("chart.png", "What does it show?")]
CARDS = load_cards()

pytestmark = pytest.mark.skipif(
    any(present(CARDS[name], "torch") is None for name in ("mini", *HEADS)),
    reason="the weights of mini and its heads are not in the tree",
)


def told(run: Run, question: tuple[str, str], *options: str) -> dict:
    image, prompt = question
    given = ("--prompt", prompt, "--model", "mini", "--json", *options)
    result = run("generate", SAMPLES / image, *given)
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


@pytest.fixture
def plain(run: Run) -> list[dict]:
    return [told(run, each, "--draft", "none", "--drafting", "none") for each in QUESTIONS]


@pytest.mark.parametrize("backend", ["torch", "mlx"])
@pytest.mark.parametrize("name", HEADS)
def test_every_head_keeps_the_answer_as_chain_and_as_tree(run: Run, plain, name, backend):
    for tree in ("none", "dynamic"):
        options = ("--draft", name, "--backend", backend, "--tree", tree)
        answers = [told(run, each, *options) for each in QUESTIONS]
        assert [each["token_ids"] for each in answers] == [each["token_ids"] for each in plain]
        stats = [each["stats"] for each in answers]
        tokens = sum(len(each["token_ids"]) for each in answers)
        # A head that foretells nothing keeps one token a round.
        assert tokens / sum(each["rounds"] for each in stats) > 1.7


def test_all_heads_together_stay_small():
    files = [file for name in HEADS for file in CARDS[name].bundled.glob("*.safetensors")]
    assert len(files) == len(HEADS)
    assert sum(file.stat().st_size for file in files) <= 15_000_000
