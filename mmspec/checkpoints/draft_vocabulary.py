"""Reads which of the target's tokens an EAGLE-3 head can draft: its tensors d2t and t2d.

Shape letters: V vocabulary of the target, d tokens that the head can draft.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.head_manifest import VOCABULARY_MAPS
from mmspec.checkpoints.loading_plan import read_tensors
from mmspec.checkpoints.safetensors_file import stored_content
from mmspec.checkpoints.safetensors_header import StoredTensor
from mmspec.ground.errors import CheckpointError

_TYPES = {"I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}


def read_draft_ids(directory: Path, config: HeadConfig) -> list[int] | None:
    """The target's id [d] of each token that the head can draft; None if it drafts all of them.

    Raises CheckpointError if d2t or t2d is missing, damaged or contradicts the other.
    """
    if config.eagle3 is None:
        return None
    tensors = read_tensors(directory)
    maps = {name: _read(tensors[name]) for name in VOCABULARY_MAPS if name in tensors}
    return draft_ids(maps, config, directory)


def draft_ids(
    maps: Mapping[str, NDArray[np.generic]], config: HeadConfig, place: Path
) -> list[int] | None:
    """As `read_draft_ids`, of the arrays in a file: d2t [d], what to add to each id, and t2d [V].

    t2d may be missing: d2t says the same. Both may be missing where d is V.
    """
    if config.eagle3 is None:
        return None
    count, vocabulary = config.eagle3.draft_vocab_size, config.vocab_size
    for name, array in maps.items():
        size = count if name == "d2t" else vocabulary
        if array.shape != (size,) or array.dtype.kind not in "iub":
            raise CheckpointError(
                f"{place}: {name} is {array.dtype} {list(array.shape)}, expected integers [{size}]"
            )
    if "d2t" not in maps:
        if count == vocabulary:
            return None
        raise CheckpointError(f"{place}: d2t [{count}] is missing, which maps the head's tokens")
    ids = maps["d2t"].astype(np.int64) + np.arange(count)
    if len(np.unique(ids)) < count or ids.min() < 0 or ids.max() >= vocabulary:
        raise CheckpointError(f"{place}: d2t does not map to {count} tokens below {vocabulary}")
    if "t2d" in maps and set(np.flatnonzero(maps["t2d"])) != set(ids):
        raise CheckpointError(f"{place}: t2d and d2t do not name the same tokens")
    return None if count == vocabulary and (ids == np.arange(count)).all() else ids.tolist()


def _read(stored: StoredTensor) -> NDArray[np.generic]:
    if stored.dtype not in _TYPES:
        allowed = ", ".join(_TYPES)
        raise CheckpointError(f"{stored.file}: {stored.name} is {stored.dtype}, not {allowed}")
    content = stored_content(stored).content
    return np.frombuffer(content, _TYPES[stored.dtype]).reshape(stored.shape)
