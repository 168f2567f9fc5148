"""The cards are consistent with each other, and reading them needs nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

from mmspec.checkpoints.cards import card, load_cards
from mmspec.errors import UsageError

CARDS = load_cards()


def test_the_models_of_the_project_have_cards() -> None:
    assert list(CARDS) == [
        "llama-68m",
        "llava-1.5-13b",
        "llava-1.5-7b",
        "lvlm160m",
        "lvlm68m",
        "mini",
        "mini-draft",
        "mini-eagle",
        "mini-flash",
        "mini-hydra",
        "mini-medusa",
        "mini-msd",
    ]


@pytest.mark.parametrize("name", CARDS)
def test_pairs_are_drafts_that_serve_their_target(name: str) -> None:
    chosen = CARDS[name]
    assert chosen.name == name
    if chosen.kind == "target":
        assert chosen.pair is not None
        assert name in CARDS[chosen.pair].serves
    else:
        assert chosen.pair is None
        assert {CARDS[target].kind for target in chosen.serves} == {"target"}


@pytest.mark.parametrize("name", CARDS)
def test_every_backend_finds_every_model(name: str) -> None:
    chosen = CARDS[name]
    assert chosen.description
    assert chosen.licence
    assert (chosen.bundled is None) == (bool(chosen.repositories("torch")))
    assert (chosen.bundled is None) == (bool(chosen.repositories("mlx")))


def test_a_backend_prefers_its_own_format_and_reads_the_other() -> None:
    torch, mlx = "llava-hf/llava-1.5-7b-hf", "mlx-community/llava-1.5-7b-4bit"
    assert card("llava-1.5-7b").repositories("torch") == [torch, mlx]
    assert card("llava-1.5-7b").repositories("mlx") == [mlx, torch]
    assert card("lvlm68m").repositories("mlx") == ["mjbooo/lvlm68m"]


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown model 'lava-1.5-7b': .*nearest: llava-1.5-7b"):
        card("lava-1.5-7b")


def test_reading_cards_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'torch', 'mlx', 'transformers', 'huggingface_hub', 'tokenizers'}"
    code = (
        "import sys, mmspec.checkpoints.hub as hub, mmspec.checkpoints.loading_plan; "
        "from mmspec.checkpoints.cards import load_cards; "
        f"assert load_cards(); assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
