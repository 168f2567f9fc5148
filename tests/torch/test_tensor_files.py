"""Tensors, states and checkpoints on a full disk: the old ones stand, one line says so."""

import pytest
import torch
from safetensors.torch import load_file

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import WriteError
from mmspec_torch.device.tensor_files import save_state, save_tensors
from mmspec_train.heads.head_checkpoint import head_config, save_head, untrained_head
from mmspec_train.settings import HeadShape

OLD, NEW = torch.arange(3.0), torch.arange(40_000.0)


def names(folder):
    return {file.name for file in folder.iterdir()} - {"other.bin"}


@pytest.mark.parametrize(
    ("save", "load"),
    [(save_tensors, load_file), (save_state, lambda file: torch.load(file, weights_only=True))],
    ids=["tensors", "state"],
)
def test_a_full_disk_leaves_the_old_tensors(disk, save, load):
    file = disk.folder / "tensors"
    save(file, {"a": OLD})
    with disk.full(free=8192), pytest.raises(WriteError) as caught:
        save(file, {"a": NEW})
    assert torch.equal(load(file)["a"], OLD)
    assert names(disk.folder) == {"tensors"}
    reason = "No space left on device" if disk.is_tmpfs else "File too large"
    assert reason in str(caught.value)
    save(file, {"a": NEW.reshape(2, -1).T})
    assert torch.equal(load(file)["a"], NEW.reshape(2, -1).T)


def test_half_a_head_is_no_checkpoint(disk, pair_paths):
    """The config is written last, and names a directory a model."""
    head = untrained_head(head_config("medusa", read_config(pair_paths[0]), HeadShape()), 0)
    for free in (0, 8192):
        with disk.full(free=free), pytest.raises(WriteError, match=r"model\.safetensors"):
            save_head(head, disk.folder / "head")
        assert names(disk.folder / "head") == set()
    save_head(head, disk.folder / "head")
    assert names(disk.folder / "head") == {"config.json", "model.safetensors"}
