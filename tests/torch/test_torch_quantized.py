"""Matrices in 8 and 4 bits: against numpy's rounding, transformers, and the bytes of a 7B model."""

import re
from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from weakref import finalize

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from test_torch_loading import LLAVA_7B, few_layers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmspec.chat.calibration import calibration_file
from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.manifest import manifest
from mmspec.checkpoints.quantization import read_scheme
from mmspec.diagnostics.check import check
from mmspec.ground.errors import UsageError
from mmspec_bench.prompts import prompts_for
from mmspec_torch.backend import TorchBackend, TorchModel
from mmspec_torch.device.quantized import Dequantizer, Integers4, Integers8, Kernel, quantized
from support import factory, transformers_oracle
from support import sequence_helpers as helpers
from support.meta_weights import meta_weights
from support.sequence_helpers import flat

LINEAR = re.compile(r"(layers\.\d+\..*|multi_modal_projector\.linear_\d)\.weight$")
GROUPS = {"int8": None, "int4": 64, "int4-32": 32, "int4-128": 128}
DOCS = Path(__file__).parents[2] / "docs" / "backends.md"
ROWS = [1, 6, 40]


def rounded(weight: np.ndarray, group: int | None) -> np.ndarray:
    """A weight [O, I] as 4 bits in groups of inputs hold it, or 8 bits where there are none."""
    if group is None:
        scale = np.abs(weight).max(axis=1, keepdims=True) / 127
        return np.round(weight / scale) * scale
    grouped = weight.reshape(len(weight), -1, group)
    least = grouped.min(axis=2, keepdims=True)
    scale = (grouped.max(axis=2, keepdims=True) - least) / 15
    centre = least + 8 * scale
    return (np.round((grouped - centre) / scale) * scale + centre).reshape(weight.shape)


def round_linear_layers(directory: Path, group: int | None) -> None:
    """Replace the linear layers of a checkpoint by what they are once rounded."""
    file = directory / "model.safetensors"
    tensors = load_file(file)
    linear = [name for name in tensors if LINEAR.search(name) and tensors[name].ndim == 2]
    assert len(linear) > 20
    save_file(
        tensors | {each: rounded(tensors[each], group) for each in linear}, file, {"format": "pt"}
    )


class Held(TorchDispatchMode):
    """Counts the bytes of tensors alive that were made while it was on, and their peak."""

    def __init__(self):
        super().__init__()
        self.bytes = self.peak = 0
        self._users = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor)
        return out

    def _count(self, tensor):
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        self._users[key] += 1
        if self._users[key] == 1:
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
        finalize(tensor, self._gone, key, size)

    def _gone(self, key, size):
        self._users[key] -= 1
        if not self._users[key]:
            self.bytes -= size


@pytest.fixture
def weight():
    """Rows of very different sizes, 1100 of them: more than are quantized at once."""
    draws = np.random.default_rng(0)
    sizes = 10.0 ** draws.uniform(-3, 2, (1100, 1))
    return (sizes * draws.standard_normal((1100, 256))).astype(np.float32)


@pytest.fixture
def activations():
    return {n: torch.randn(n, 256, generator=torch.Generator().manual_seed(n)) for n in ROWS}


@pytest.mark.parametrize(("word", "group"), GROUPS.items())
def test_products_are_those_of_weights_that_numpy_rounds(weight, activations, word, group):
    product = quantized(torch.from_numpy(weight), read_scheme(word), "w")
    held = rounded(weight, group)
    np.testing.assert_allclose(product(torch.eye(256)).T, held, rtol=1e-6, atol=1e-6)
    for x in activations.values():
        expected = x.double() @ torch.from_numpy(held.T).double()
        scale = expected.abs().max()
        torch.testing.assert_close(product(x).double() / scale, expected / scale, atol=1e-6, rtol=0)
        total = product.add(x, torch.ones(len(x), 1100)).double()
        torch.testing.assert_close(total / scale, (expected + 1) / scale, atol=1e-6, rtol=0)


@pytest.mark.parametrize("word", GROUPS)
def test_kernels_multiply_the_same_integers(weight, activations, word):
    whole = torch.from_numpy(weight)[:1088].bfloat16()
    scheme = read_scheme(word)
    kernel = quantized(whole, scheme, "w")
    assert isinstance(kernel, Kernel)
    integers = Integers4.of(whole, scheme.group) if scheme.group else Integers8.of(whole)
    for x in (each.bfloat16() for each in activations.values()):
        error = (kernel(x).float() - Dequantizer(integers)(x).float()).abs()
        assert (error <= 2**-7 * (x.abs().float() @ integers.dequantize().abs().float().T)).all()
        summed = kernel.add(x, torch.zeros(len(x), 1088, dtype=torch.bfloat16))
        assert torch.equal(summed, kernel(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [0.0, 1e-30, 0.75])
def test_weights_all_alike_stay_what_they_are(dtype, value):
    weight = torch.full((16, 64), value, dtype=dtype)
    for word in ("int8", "int4"):
        held = quantized(weight, read_scheme(word), "w")(torch.eye(64, dtype=dtype)).T
        torch.testing.assert_close(held, weight, atol=1e-7, rtol=1e-2)
    for integers in (Integers8.of(weight), Integers4.of(weight, 64)):
        assert (integers.scale > 0).all()


@torch.inference_mode()
@pytest.mark.parametrize("word", ["int8", "int4-32"])
def test_a_whole_model_is_transformers_with_rounded_weights(tmp_path, word):
    sizes = {"seed": 3, "key_value_heads": 2}
    ours = factory.tiny_llava(tmp_path / "ours", **sizes)
    theirs = factory.tiny_llava(tmp_path / "theirs", layout="transformers", **sizes)
    round_linear_layers(theirs, GROUPS[word])
    model = TorchBackend().load(ours, device="cpu", quantize=word)
    expected = transformers_oracle.transformers_model(theirs)
    image = helpers.pixels(model.config.vision.image_size)
    segment = helpers.prompt([model.encode(image[0])])
    ids = torch.tensor([flat(segment)])
    logits = expected(input_ids=ids, pixel_values=torch.tensor(image)).logits[0, -1]
    np.testing.assert_allclose(helpers.target(model, segment).logits(), logits, atol=5e-5)
    plain = TorchBackend().load(ours, device="cpu")
    assert np.abs(helpers.target(plain, helpers.prompt([])).logits() - logits.numpy()).max() > 1e-3


@pytest.mark.parametrize(("word", "own"), [("int4-32", None), ("none", "int8"), ("int8", "none")])
def test_drafts_of_a_quantized_pair_change_no_token(pair_paths, word, own):
    """Also where the draft has a width of its own, and then a calibration of its own."""
    target, draft = map(str, pair_paths)
    settings = {"backend": "torch", "device": "cpu", "quantize": word}
    same = load(target, draft, **settings)
    engine = load(target, draft, **settings, draft_quantize=own) if own else same
    assert (engine.target.model.quantize, engine.draft.model.quantize) == (word, own or word)
    assert [note for note in engine.notes if "unpacks every matrix" in note] or word == "none"
    assert load(target, "none", **settings, dtype="bfloat16").notes == []
    prompts = prompts_for(engine.target.model.config, 2)
    options = Options(drafting="T" if own else "MT", gamma=5, max_new_tokens=20)
    report = check(engine, prompts, options)
    assert (report.outcome, report.quantize) == ("identical", word)
    files = {
        calibration_file(each.backend, each.target, each.draft, None).path
        for each in (engine, same)
    }
    assert len(files) == (2 if own else 1)


def test_a_quantized_tower_is_another_tower(llava_path):
    towers = [
        TorchBackend().load(llava_path, device="cpu", quantize=word).tower
        for word in ("none", "int8", "int4", "int4")
    ]
    assert len(set(towers)) == 3
    assert towers[2] == towers[3]


def test_what_cannot_be_quantized_is_named(tmp_path, llava_path, mlx_path):
    backend = TorchBackend()
    with pytest.raises(UsageError, match=r"'int5'.*: use none, int8, int4"):
        backend.load(llava_path, quantize="int5")
    with pytest.raises(UsageError, match=r"_proj has 64 inputs.*groups of 128"):
        backend.load(llava_path, device="cpu", quantize="int4-128")
    with pytest.raises(UsageError, match="quantized already: leave `quantize=int8` out"):
        backend.load(mlx_path, quantize="int8")


def shape_bytes(name, shape, word):
    """Bytes of a tensor by arithmetic: integers, and two bytes for every scale and centre."""
    if word == "none" or len(shape) != 2 or not LINEAR.search(name):
        return 2 * prod(shape)
    group = GROUPS[word]
    return prod(shape) // 2 + 4 * prod(shape) // group if group else prod(shape) + 2 * shape[0]


def test_the_documented_bytes_are_those_of_the_shapes_of_a_7b_model():
    documented = re.findall(r"([\d.]+) GB\s+with\s+`(\S+)`", DOCS.read_text())
    for word in ("none", *GROUPS):
        size = sum(shape_bytes(*each, word) for each in manifest(LLAVA_7B).items())
        assert (f"{size / 1e9:.2f}", word) in documented


@pytest.mark.parametrize("word", ["none", "int8", "int4"])
def test_a_model_holds_the_bytes_of_its_shapes_and_loading_takes_little_more(word):
    config = few_layers(LLAVA_7B)
    config = replace(config, vision=replace(config.vision, num_hidden_layers=2))
    with Held() as held:
        model = TorchModel(meta_weights(config, torch.bfloat16, read_scheme(word)), config)
        assert model.quantize == word
        foreseen = sum(shape_bytes(*each, word) for each in manifest(config).items())
        assert held.bytes == pytest.approx(foreseen, rel=1e-3)
    assert word == "none" or held.peak - held.bytes < 1e8
