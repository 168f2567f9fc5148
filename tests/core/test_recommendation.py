"""Which model is taken and recommended: the best that is here, and the best that fits."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mmspec.checkpoints import recommendation
from mmspec.checkpoints.recommendation import advice, best_here, recommended

GIB = 2**30


@pytest.mark.parametrize(
    ("here", "taken"),
    [
        ((), "mini"),
        (("llava-1.5-7b",), "llava-1.5-7b"),
        (("qwen3-vl-2b", "qwen3-vl-8b", "llava-1.5-7b"), "qwen3-vl-8b"),
        (("qwen3-8b",), "mini"),
    ],
)
def test_auto_takes_the_best_for_images_that_is_here(monkeypatch, here, taken):
    monkeypatch.setattr(recommendation, "present", lambda card, _: card.name in here)
    assert best_here("mlx") == taken


@pytest.mark.parametrize(
    ("backend", "memory", "name"),
    [
        ("mlx", 2, "mini"),
        ("mlx", 8, "qwen3-vl-4b"),
        ("mlx", 16, "qwen3-vl-8b"),
        ("mlx", 64, "qwen3-vl-32b"),
        ("torch", 24, "qwen3.5-4b"),
        ("torch", 48, "qwen3.5-9b"),
    ],
)
def test_the_best_pair_that_fits_is_recommended(backend, memory, name):
    assert recommended(backend, memory * GIB) == name
    line = advice(backend, memory * GIB)
    assert name in line
    assert backend in line or name == "mini"
    assert "\n" not in line


WRONG = [
    *({"model": "nosuch"}, {"draft": "no/such"}, {"captioner": "nosuch"}, {"device": "gup"}),
    *({"dtype": "flaot32"}, {"quantize": "int3"}, {"draft_quantize": "int5"}),
    {"backend": "torhc"},
]


def test_a_wrong_name_is_refused_before_a_framework_is_loaded():
    code = (
        "import sys, mmspec\n"
        f"for wrong in {WRONG!r}:\n"
        "    try: mmspec.load(**wrong)\n"
        "    except mmspec.MmspecError as error: print(error)\n"
        "print({'torch', 'mlx.core'} & {*sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *errors, loaded = out.stdout.splitlines()
    for wrong, error in zip(WRONG, errors, strict=True):
        assert next(iter(wrong.values())) in error
    assert loaded == "set()"


def test_the_page_of_the_chat_names_the_same():
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    sentence = page.split("on Macs of ")[1].split("`.")[0] + "`"
    memories, names = sentence.split(" GB ")
    sizes = [int(size) for size in re.findall(r"\d+", memories)]
    named = re.findall(r"`([^`]+)`", names)
    assert named == [recommended("mlx", size * GIB) for size in sizes]
