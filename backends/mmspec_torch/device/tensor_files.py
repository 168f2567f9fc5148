"""Writes tensors and training states to files; a full disk leaves the old file in place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import require_file
from mmspec.ground.output_files import replace_file


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace `file` by tensors in the safetensors format. Raises WriteError."""
    copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replace_file(file) as partial:
        try:
            save_file(copies, partial, metadata={"format": "pt"})
        except SafetensorError as error:  # its own for a failed write
            raise OSError(str(error)) from error


def save_state(file: Path, state: Mapping[str, Any]) -> None:
    """Replace `file` by a state that `torch.load` reads. Raises WriteError."""
    with replace_file(file) as partial, partial.open("wb") as stream:
        try:
            torch.save(state, stream)
        except RuntimeError as error:  # PyTorch raises its own for the stream's
            raise OSError(f"{error.__context__ or error}") from error


def read_state(file: Path, *, mmap: bool = False) -> dict[str, Any]:
    """Read what `torch.save` wrote to the host, without executing any of it.

    mmap: read tensors when they are used. Raises CheckpointError for anything but a dictionary of
    tensors and numbers.
    """
    try:
        require_file(file)
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror or error}") from error
    except Exception as error:  # damaged pickles and archives raise anything
        reason = " ".join(str(error).partition("\n")[0].split()) or type(error).__name__
        raise CheckpointError(f"{file} does not hold tensors alone: {reason}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{file} does not hold tensors by name")
    return state
