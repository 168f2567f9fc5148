"""Every backend says what transformers' generate says on checkpoints of Qwen's families."""

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.images import picture_from
from support.conformance_cases import in_turn, prompt_of
from support.factory_qwen import DRAFTS, tiny_qwen
from support.qwen_oracle import Oracle
from support.transformers_oracle import generated, transformers_model

VARIANTS = {
    "qwen3_vl": {
        "one key head": {"key_value_heads": 1},
        "wide heads": {"head_dim": 32, "sections": (6, 5, 5)},
        "rows and columns": {"sections": (0, 3, 3)},
        "no DeepStack": {"deepstack": ()},
        "deep": {"layers": 4, "depth": 4, "deepstack": (1, 3)},
        "small tower": {"vision_hidden_size": 16, "depth": 1, "deepstack": (0,), "side": 3},
        "large grid": {"side": 20, "theta": 5e6, "tied": True, "vocab_size": 384},
    },
    "qwen2_5_vl": {
        "all key heads": {"key_value_heads": 4},
        "time alone": {"sections": (8, 0, 0)},
        "windows of three cells": {"window": 27},
        "one window": {"window": 400, "whole": ()},
        "no window": {"whole": (0, 1, 2)},
        "whole first and last": {"depth": 4, "whole": (0, 3), "layers": 4},
        "large vocabulary": {"theta": 1e6, "tied": True, "vocab_size": 384, "window": 24},
    },
    "qwen3_5": {
        "tied": {"tied": True},
        "attention among": {"kinds": "dadad"},
        "equal heads": {"key_heads": 4, "value_heads": 4},
        "one key head": {"key_heads": 1, "value_heads": 4, "key_value_heads": 1},
        "wide keys": {"key_dim": 32, "value_dim": 8, "kernel": 7},
        "short convolution": {"kernel": 2, "share": 1.0, "sections": (4, 2, 2)},
        "small tower": {"vision_hidden_size": 16, "depth": 1, "side": 3, "theta": 1e7},
    },
}
CHECKPOINTS = {
    f"{kind} {name}": own for kind, each in VARIANTS.items() for name, own in each.items()
}
SHAPES = {"wide": (52, 17), "tall": (14, 61), "square": (33, 33)}
DRAFTINGS = ("none", "lookup", "M", "MT", "P", "MTCP")
BUDGET = 12


@pytest.fixture(scope="module")
def checkpoint(request, checkpoints):
    """A checkpoint of each variant, a smaller draft, and transformers' model of it."""
    sizes = CHECKPOINTS[request.param]
    kind = request.param.split()[0]
    folder = checkpoints / request.param
    path = tiny_qwen(kind, folder / "target", seed=3, **sizes)
    small = {"hidden_size": 32, "layers": 2, "vocab_size": sizes.get("vocab_size", 320)}
    small |= {"heads": 2} if kind == "qwen2_5_vl" else {}
    draft = tiny_qwen(DRAFTS[kind], folder / "draft", seed=4, **small)
    return path, draft, Oracle(path)


def shown(count, width, height):
    """So many pictures of random pixels, of one shape and its turned one in turn."""
    draws = np.random.default_rng(width)
    sizes = [(width, height) if each % 2 == 0 else (height, width) for each in range(count)]
    arrays = (draws.integers(0, 256, (high, wide, 3), dtype=np.uint8) for wide, high in sizes)
    return [picture_from(Image.fromarray(array)) for array in arrays]


def check_two_turns(engine, oracle, drafting, count, shape):
    """Hold both answers of a conversation to the oracle's."""
    chat = engine.chat(Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET))
    seen = shown(count, *SHAPES[shape])
    for text, pictures in (("Which shapes are there?", seen), ("And these?", seen[:1])):
        answer = chat.reply(text, pictures).token_ids
        assert answer == oracle.generated(prompt_of(chat), BUDGET), (drafting, count, shape)


def covering(number):
    """A drafting, a count and a shape for a checkpoint, so that together they cover all."""
    return DRAFTINGS[number % 6], 1 + number % 4, [*SHAPES][number // 2 % 3]


@pytest.mark.parametrize(("backend", "checkpoint"), in_turn(CHECKPOINTS), indirect=True)
def test_two_turns_are_generates_own(checkpoint, backend, request):
    """On one backend each, the next on the other."""
    path, draft, oracle = checkpoint
    case = covering([*CHECKPOINTS].index(request.node.callspec.params["checkpoint"]))
    with load(path, draft, backend=backend) as engine:
        check_two_turns(engine, oracle, *case)


LAYOUTS = ["qwen3_5 small tower", "qwen3_vl deep", "qwen2_5_vl whole first and last"]


@pytest.mark.parametrize("checkpoint", LAYOUTS, indirect=True, scope="module")
def test_features_are_those_of_transformers(checkpoint, backend):
    path, _, oracle = checkpoint
    with load(path, "none", backend=backend) as engine:
        for sides in SHAPES.values():
            [picture] = shown(1, *sides)
            ours, theirs = engine.target.features(picture).numpy(), oracle.features(picture.image)
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


WIDE = {"head_dim": 48, "hidden_size": 96, "heads": 2, "theta": 1e6}
TEXTS = {
    "qwen3 tied": {"tied": True, "key_value_heads": 1},
    "qwen3 wide heads": WIDE,
    "qwen3_5_text tied": {"tied": True, "kinds": "add"},
    "qwen2 plain": {},
    "qwen2 tied": {"tied": True, "key_value_heads": 1},
}


@pytest.mark.parametrize("variant", TEXTS)
def test_a_text_model_says_what_transformers_says(variant, backend, checkpoints):
    path = checkpoints / variant
    if not path.exists():
        tiny_qwen(variant.split()[0], path, seed=5, **TEXTS[variant])
    with load(path, path, backend=backend) as engine:
        chat = engine.chat(Options(drafting="T", gamma=3, max_new_tokens=BUDGET))
        answer = chat.reply("How many shapes are there?").token_ids
        [prompt] = prompt_of(chat)
        assert answer == generated(transformers_model(path), prompt.parts[0], BUDGET, stops=True)


PAIRS = [
    ("qwen3_vl", 320, "qwen3", 320, "TC"),
    ("qwen2_5_vl", 384, "qwen2_5_vl", 320, "MTCP"),
    ("qwen2_5_vl", 320, "qwen2_5_vl", 384, "MP"),
    ("qwen3_5", 320, "qwen3_5", 320, "P"),
    ("qwen3_vl", 320, "qwen3_5_text", 384, "T"),
]
"""`model_type` and ids of the target and of the draft, and the drafting."""


@pytest.mark.parametrize(("backend", "case"), in_turn(PAIRS), indirect=["backend"])
def test_drafts_have_more_or_fewer_ids(backend, case, tmp_path_factory):
    """As Qwen's of one vocabulary with 151,936 and 152,064 rows; also a text model's."""
    kind, ids, draft_kind, draft_ids, drafting = case
    folder = tmp_path_factory.mktemp("drafts")
    path = tiny_qwen(kind, folder / "target", seed=3, vocab_size=ids)
    small = {"hidden_size": 32, "heads": 2, "layers": 1}
    draft = tiny_qwen(draft_kind, folder / "draft", seed=6, vocab_size=draft_ids, **small)
    with load(path, draft, backend=backend) as engine:
        check_two_turns(engine, Oracle(path), drafting, 1, "tall")
