"""Also asked of Qwen's families: undo, cached images, exact decoding, quantized copies, parity."""

from dataclasses import replace

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
from support.conformance_cases import logits
from support.factory_mlx import quantized
from support.factory_qwen import QWENS, as_on_the_hub, tiny_qwen

BUDGET = 10


def test_a_draft_after_a_rewind_has_nothing_of_the_image_that_stood_there(qwen):
    model, image = qwen.target.model, qwen.target.features(*shown(1, 40, 24))
    rewound, cold = model.open_target(GREEDY), model.open_target(GREEDY)
    rewound.extend(Segment([[20, 21, 22], image, [23]]))
    rewound.rewind(3)
    cold.extend(Segment([[20, 21, 22]]))
    rows = [target.fed_rows(HostDraft([24, 25, 26])) for target in (rewound, cold)]
    for got, expected in zip(*rows, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def answers(directory, backend):
    with load(directory, "none", backend=backend) as engine:
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


@pytest.mark.parametrize(("kind", "bits", "vision", "tied"), CONVERSIONS)
def test_conversions_of_mlx_vlm_load_on_both_backends(tmp_path, kind, bits, vision, tied):
    source = tiny_qwen(kind, tmp_path / "source", tied=tied, **QWENS[kind])
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
    source = tiny_qwen(kind, tmp_path / "source", **QWENS[kind])
    more = "v_proj", "down_proj", "in_proj_b", "layers.1.self_attn.q_proj"
    same_answers(quantized(source, tmp_path / "mlx", vision=False, own=dict.fromkeys(more, 8)))


@pytest.mark.parametrize("tied", [False, True])
def test_a_quantized_copy_is_what_mlx_vlm_writes(tmp_path, kind, tied):
    source = tiny_qwen(kind, tmp_path / "source", tied=tied, **QWENS[kind])
    MlxBackend().quantize(source, tmp_path / "ours", bits=4, group_size=64)
    theirs = mx.load(
        str(quantized(source, tmp_path / "theirs", 4, vision=False) / "model.safetensors")
    )
    ours = mx.load(str(tmp_path / "ours" / "model.safetensors"))
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[name], array) for name, array in theirs.items())


def test_the_config_on_the_hub_means_the_same(tmp_path, kind):
    """It names M-RoPE in `rope_scaling`, and Qwen2.5-VL's the decoder's sizes beside the rest."""
    source = tiny_qwen(kind, tmp_path / "source", **QWENS[kind])
    expected, found = read_config(source), read_config(as_on_the_hub(source))
    assert found == replace(expected, family=found.family)
