"""The heads that come with the package: they load, keep the answer and foretell it."""

import re
import shlex

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.cards import load_cards, present
from mmspec.checkpoints.head_config import read_head_config
from mmspec.decoding.tree import Tree
from mmspec.diagnostics.single_turn import answer_once
from mmspec_cli.train import distill
from support.bundled import SAMPLES, question

HEADS = ["mini-msd", "mini-eagle", "mini-eagle3", "mini-medusa", "mini-hydra", "mini-flash"]
QUESTIONS = [
    question(SAMPLES / "shapes.png", "Describe this image in detail."),
    question(SAMPLES / "chart.png", "What does it show?"),
]
CARDS = load_cards()

pytestmark = pytest.mark.skipif(
    any(present(CARDS[name], "torch") is None for name in ("mini", *HEADS)),
    reason="the weights of mini and its heads are not in the tree",
)


def answers(engine, options):
    return [answer_once(engine, each, options) for each in QUESTIONS]


@pytest.fixture(scope="module")
def plain():
    engine = load("mini", "none", backend="torch")
    return [each.token_ids for each in answers(engine, Options(drafting="none"))]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "torch") for name in HEADS[::2]),
        *(pytest.param(name, "torch", marks=pytest.mark.slow) for name in HEADS[1::2]),
        ("mini-flash", "mlx"),
        *(pytest.param(name, "mlx", marks=pytest.mark.slow) for name in HEADS[:-1]),
    ],
)
def test_every_head_keeps_the_answer_as_chain_and_as_tree(plain, name, backend):
    engine = load("mini", name, backend=backend)
    for tree in (None, Tree()):
        drafted = answers(engine, Options(gamma=4, tree=tree))
        assert [each.token_ids for each in drafted] == plain
        # A head that foretells nothing keeps one token a round.
        rounds = sum(len(each.rounds) for each in drafted)
        assert sum(map(len, plain)) / rounds > 1.7


@pytest.mark.parametrize("name", HEADS)
def test_the_card_has_the_command_that_makes_the_head(name):
    directory = CARDS[name].bundled
    card = (directory / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^    mmspec train distill (.*)$", card, re.MULTILINE)
    options = distill.make_context("distill", shlex.split(command)).params
    config = read_head_config(directory)
    assert options["kind"] == config.kind
    assert options["steps"]
    assert options["threads"], "the number of threads decides how sums are rounded"
    assert re.search(r"held-out loss \(`log.csv`\)\s+ends\s+at\s+\d+\.\d{4}\.", card)
