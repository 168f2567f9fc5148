"""Weights of 8 and 4 bits by numpy, and a count of the bytes that tensors hold."""

import re
from collections import Counter
from pathlib import Path
from weakref import finalize

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LINEAR = re.compile(r"(layers\.\d+\..*|multi_modal_projector\.linear_\d)\.weight$")
GROUPS = {"int8": None, "int4": 64, "int4-32": 32, "int4-128": 128}


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


def half_steps(weight: np.ndarray, group: int | None) -> np.ndarray:
    """The furthest [O, I] that rounding to the nearest can move each of the weights."""
    grouped = weight.reshape(len(weight), -1, group or weight.shape[1])
    if group is None:
        steps = np.abs(grouped).max(axis=2, keepdims=True) / 127
    else:
        steps = np.ptp(grouped, axis=2, keepdims=True) / 15
    return np.broadcast_to(steps / 2, grouped.shape).reshape(weight.shape)


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
