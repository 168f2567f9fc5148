"""Heads from their directories."""

from functools import partial
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from mmspec.errors import CheckpointError, UsageError
from mmspec.heads.config import HeadConfig, read_head_config, require_fit
from mmspec.heads.head import Head
from mmspec.heads.manifest import head_pickle, plan_head, require_tensors
from mmspec.heads.seam import Base
from mmspec.seam import Target
from mmspec_torch.heads.modules import TorchParts
from mmspec_torch.llama import Llama
from mmspec_torch.llava import TorchModel
from mmspec_torch.target import TorchTarget
from mmspec_torch.weights import Weights, open_weights


def load_head(directory: Path, model: TorchModel) -> Head[Tensor]:
    """Load a head strictly, to draft for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    weights = _weights(directory, config, model)
    parts, base = TorchParts(weights, model.llama), partial(_read, model.llama)
    head = Head(config, parts, base, model.config.image_token_id)
    if weights.left:
        raise CheckpointError(f"a {config.kind} head does not use {weights.left[0]}")
    return head


def _read(llama: Llama, target: Target) -> Base[Tensor]:
    """What a head reads of a target and of `llama`, its decoder."""
    if not isinstance(target, TorchTarget):
        raise UsageError(f"a head on torch cannot read a {type(target).__name__}")
    target.keep_trail()
    return Base(target.states, target.inputs, llama.embed, llama.project)


def _weights(directory: Path, config: HeadConfig, model: TorchModel) -> Weights:
    device, dtype = model.llama.device, model.llama.dtype
    pickle = head_pickle(directory)
    if pickle is None:
        return open_weights(plan_head(directory, config), device, dtype)
    tensors = read_pickle(pickle, config)
    return Weights(tensors, lambda name: tensors[name].to(device, dtype))


def read_pickle(file: Path, config: HeadConfig) -> dict[str, Tensor]:
    """Read a published head's tensors, those that are loaded; nothing in the file is executed.

    Raises CheckpointError where it holds anything else than the tensors of such a head.
    """
    try:
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        shapes = {str(name): tuple(tensor.shape) for name, tensor in found.items()}
    except (OSError, RuntimeError, UnpicklingError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{file} does not hold tensors alone: {reason}") from error
    return {name: found[name] for name in require_tensors(shapes, config, file)}
