"""Also asked of Qwen's families: undo, cached images, exact decoding, quantized copies, parity."""

from dataclasses import replace
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.sampling import GREEDY
from mmspec_mlx.backend import MlxBackend
from support.conformance_cases import in_turn, logits, prompt_of
from support.exactness_cases import TREES, cases, check_same_bits
from support.factory_mlx import quantized
from support.factory_qwen import ALL_MAKERS, as_on_the_hub
from support.qwen_oracle import Oracle
from support.sequence_helpers import continue_from

BUDGET = 10
WIDE = {"vision_hidden_size": 64, "head_dim": 32, "seed": 8}
SIZES = {
    "qwen3_vl": WIDE | {"sections": (6, 5, 5)},
    "qwen2_5_vl": WIDE | {"sections": (6, 5, 5), "hidden_size": 128},
    "qwen3_5": WIDE | {"kinds": "dadda"},
}


@pytest.fixture(scope="module", params=SIZES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def paths(checkpoints, kind):
    """A target and a draft of its family."""
    folder = checkpoints / f"{kind} paths"
    target = ALL_MAKERS[kind](folder / "target", **SIZES[kind])
    return target, ALL_MAKERS[kind](folder / "draft", hidden_size=32, heads=2, layers=2, seed=9)


@pytest.fixture(scope="module")
def engine(backend, paths):
    return load(*map(str, paths), backend=backend)


@pytest.fixture(scope="module")
def oracle(paths):
    return Oracle(paths[0])


@pytest.mark.parametrize("drafting", ["none", "P"])
def test_a_cached_image_keeps_what_deepstack_adds(engine, oracle, drafting):
    """Also after undo, and where another image was in the same place."""
    options = Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET)
    first, second = shown(2, 40, 24)
    chat = engine.chat(options)
    for picture in (first, second, first):
        answer = chat.reply("What is it?", picture).token_ids
        assert answer == oracle.generated(prompt_of(chat), BUDGET)
        chat.conversation.undo()
    chat.reply("What is it?", [second, first])
    assert chat.reply("And now?").token_ids == oracle.generated(prompt_of(chat), BUDGET)
    again = engine.chat(options)
    answer = again.reply("Is it there?", first).token_ids
    assert answer == oracle.generated(prompt_of(again), BUDGET)


def test_a_target_rewound_anywhere_continues_like_a_cold_one(engine):
    """Also inside an image, whose later positions are then those of text; not right after it."""
    model, cache = engine.target.model, engine.target.features
    images = [cache(picture) for picture in shown(2, 40, 24)]
    parts = [[20, 21], images[0], [22, 23], images[1], [24, 25, 26]]
    whole = Segment(parts)
    target = model.open_target(GREEDY)
    target.extend(Segment(parts[:2]))
    with pytest.raises(ValueError, match="extend by text first"):
        target.logits()
    target.rewind(0)  # fed as later: recurrent layers round by pieces
    target.extend(whole)
    expected = target.logits()
    for cut in range(0, len(whole), 2):
        continue_from(target, model, whole, cut)
        target.rewind(0)
        target.extend(whole)
    np.testing.assert_allclose(target.logits(), expected, atol=1e-5)


def test_a_draft_after_a_rewind_has_nothing_of_the_image_that_stood_there(engine):
    model, image = engine.target.model, engine.target.features(*shown(1, 40, 24))
    rewound, cold = model.open_target(GREEDY), model.open_target(GREEDY)
    rewound.extend(Segment([[20, 21, 22], image, [23]]))
    rewound.rewind(3)
    cold.extend(Segment([[20, 21, 22]]))
    rows = [target.fed_rows(HostDraft([24, 25, 26])) for target in (rewound, cold)]
    for got, expected in zip(*rows, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
@pytest.mark.parametrize(("backend", "kind"), in_turn(SIZES), indirect=True)
def test_answers_are_the_same_bits(backend, checkpoints, kind, dtype, near):
    """With as many key heads as heads: MLX's float32 products of groups are not exact on a CPU."""
    target, draft = checkpoints / f"{kind} exact", checkpoints / f"{kind} exact draft"
    if not target.exists():
        ALL_MAKERS[kind](target, key_value_heads=4, seed=8)
        ALL_MAKERS[kind](draft, hidden_size=32, heads=2, layers=2, seed=9)
    some = [case for case in cases(["M", "lookup"]) if kind != "qwen3_5" or case.shape not in TREES]
    some = some[list(SIZES).index(kind) :: 40]
    with load(str(target), str(draft), backend=backend, dtype=dtype) as engine:
        check_same_bits(engine, some, BUDGET)


def answers(directory, backend):
    with load(str(directory), "none", backend=backend) as engine:
        chat = engine.chat(Options(max_new_tokens=BUDGET))
        chat.reply("What is it?", shown(2, 40, 24))
        return chat.answer.token_ids, logits(chat)


CONVERSIONS = [
    ("qwen3_vl", 0, False, True),
    ("qwen3_vl", 4, False, False),
    ("qwen2_5_vl", 4, True, False),
    ("qwen3_5", 0, False, True),
    ("qwen3_5", 4, False, False),
]
OTHERS = set(product(SIZES, (0, 4, 8), (False, True), (False, True))) - {*CONVERSIONS}


@pytest.mark.parametrize(
    ("kind", "bits", "vision", "tied"),
    [*CONVERSIONS, *(pytest.param(*other, marks=pytest.mark.slow) for other in sorted(OTHERS))],
)
def test_conversions_of_mlx_vlm_load_on_both_backends(tmp_path, kind, bits, vision, tied):
    source = ALL_MAKERS[kind](tmp_path / "source", tied=tied, **SIZES[kind])
    said = same_answers(quantized(source, tmp_path / "mlx", bits, vision=vision))
    assert bits or said == answers(source, "torch")[0]


def same_answers(path):
    """The ids of both backends' answers, whose logits are close."""
    (ids, logits), (others, theirs) = (answers(path, backend) for backend in ("torch", "mlx"))
    assert ids == others
    np.testing.assert_allclose(logits, theirs, atol=1e-3)
    return ids


def test_layers_may_have_bits_of_their_own(tmp_path, kind):
    """Also where layers that are computed together differ."""
    source = ALL_MAKERS[kind](tmp_path / "source", **SIZES[kind])
    more = "v_proj", "down_proj", "in_proj_b", "layers.1.self_attn.q_proj"
    same_answers(quantized(source, tmp_path / "mlx", vision=False, own=dict.fromkeys(more, 8)))


@pytest.mark.parametrize("tied", [False, True])
def test_a_quantized_copy_is_what_mlx_vlm_writes(tmp_path, kind, tied):
    source = ALL_MAKERS[kind](tmp_path / "source", tied=tied, **SIZES[kind])
    MlxBackend().quantize(source, tmp_path / "ours", bits=4, group_size=64)
    theirs = mx.load(
        str(quantized(source, tmp_path / "theirs", 4, vision=False) / "model.safetensors")
    )
    ours = mx.load(str(tmp_path / "ours" / "model.safetensors"))
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[name], array) for name, array in theirs.items())


def test_the_config_on_the_hub_means_the_same(tmp_path, kind):
    """It names M-RoPE in `rope_scaling`, and Qwen2.5-VL's the decoder's sizes beside the rest."""
    source = ALL_MAKERS[kind](tmp_path / "source", **SIZES[kind])
    expected, found = read_config(source), read_config(as_on_the_hub(source))
    assert found == replace(expected, family=found.family)
