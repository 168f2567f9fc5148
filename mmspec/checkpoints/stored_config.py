"""The config of a checkpoint as its weights have it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.loading_plan import read_tensors
from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD, canonical
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import read_errors

PIECE = 2**24
"""Bytes that are compared at a time."""


def stored_config(directory: Path) -> ModelConfig:
    """The config, in which an output matrix is tied only if the files have none of its own.

    As in transformers, a matrix that is not the embedding is used, whatever config.json says of
    ties. Raises CheckpointError.
    """
    config = read_config(directory)
    if not config.text.tie_word_embeddings:
        return config
    tensors = {canonical(name, config): tensor for name, tensor in read_tensors(directory).items()}
    for part in ("weight", "scales", "biases"):
        names = (name.removesuffix("weight") + part for name in (LM_HEAD, EMBEDDING))
        head, embedding = map(tensors.get, names)
        if head and embedding and not _are_equal(head, embedding):
            return replace(config, text=replace(config.text, tie_word_embeddings=False))
    return config


def _are_equal(first: StoredTensor, second: StoredTensor) -> bool:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    return all(a == b for a, b in zip(_pieces(first), _pieces(second), strict=True))


def _pieces(tensor: StoredTensor) -> Iterator[bytes]:
    with read_errors(tensor.file, CheckpointError), tensor.file.open("rb") as file:
        file.seek(tensor.start)
        for start in range(tensor.start, tensor.end, PIECE):
            yield file.read(min(PIECE, tensor.end - start))
