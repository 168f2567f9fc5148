"""Loads heads from checkpoint directories."""

from pathlib import Path

from torch import Tensor

from mmspec.checkpoints.head_config import HeadConfig, read_head_config, require_fit
from mmspec.checkpoints.head_manifest import head_pickle, plan_head, require_tensors
from mmspec.drafters.heads.head import Head
from mmspec.errors import CheckpointError
from mmspec_torch.heads.modules import TorchParts
from mmspec_torch.model import TorchModel
from mmspec_torch.tensor_files import read_state
from mmspec_torch.weights import Weights, open_weights, require_finite


def load_head(directory: Path, model: TorchModel) -> Head[Tensor]:
    """Load a head that drafts for `model`.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, model.config, directory)
    weights = _weights(directory, config, model)
    head = Head(config, TorchParts(weights, model.language))
    if weights.left:
        raise CheckpointError(f"a {config.kind} head does not use {weights.left[0]}")
    return head


def _weights(directory: Path, config: HeadConfig, model: TorchModel) -> Weights:
    device, dtype = model.language.device, model.language.dtype
    pickle = head_pickle(directory)
    if pickle is None:
        return open_weights(plan_head(directory, config), device, dtype)
    tensors = read_pickle(pickle, config)
    for name, tensor in tensors.items():
        require_finite(tensor.to(dtype), name, pickle)
    return Weights(tensors, lambda name: tensors[name].to(device, dtype))


def read_pickle(file: Path, config: HeadConfig) -> dict[str, Tensor]:
    """Read the tensors that a published head needs; nothing in the pickle is executed.

    Raises CheckpointError if the file contains anything but the tensors of such a head.
    """
    tensors = read_state(file, mmap=True)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{file} does not hold tensors alone: {name!r}")
    shapes = {str(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    return {name: tensors[name] for name in require_tensors(shapes, config, file)}
