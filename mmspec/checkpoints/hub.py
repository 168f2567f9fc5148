"""Finds models on this machine, or downloads them. Only `pull` uses the network."""

import difflib
import errno
import os
import re
from pathlib import Path

from mmspec.checkpoints.cards import load_cards, present, revision_of, snapshot_of
from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.hub_cache import cached_snapshot
from mmspec.checkpoints.hub_download import Download, fetch, plan_download
from mmspec.checkpoints.loading_plan import weight_files
from mmspec.ground.errors import (
    AbsentError,
    CheckpointError,
    HubError,
    MmspecError,
    UsageError,
    WriteError,
)
from mmspec.ground.input_files import expand_home
from mmspec.ground.progress import Progress, silent

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)
GGUF = ".gguf"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def resolve(name: str, backend: str) -> Path:
    """The directory of a model, from a card's name, a directory or a hub id.

    A card's model that is not here may be in a directory of that name. Downloads nothing. Raises
    UsageError for an unknown name, HubError for a model that is not on this machine,
    CheckpointError for a directory without a model.
    """
    directory, card = expand_home(name), load_cards().get(name)
    if card and (snapshot := present(card, backend)):
        return snapshot
    if name and (directory / CONFIG_FILE).is_file():
        return directory
    if card and card.bundled:
        raise HubError(
            f"{name} is bundled, but its weights are not in {card.bundled}: reinstall mmspec"
        )
    if card:
        raise AbsentError(_pull_first(name, backend), name, backend)
    if name and directory.exists():
        raise _no_model(name, directory)
    snapshot = snapshot_of(_repository(name))
    if snapshot is None:
        repositories = [source for c in load_cards().values() for source in c.sources.values()]
        nearest = difflib.get_close_matches(name, repositories, n=1, cutoff=0.8)
        hint = f" (known and near: {nearest[0]})" if nearest and nearest[0] != name else ""
        raise HubError(_pull_first(name, backend) + hint)
    return snapshot


def pull(name: str, backend: str, revision: str | None = None, note: Progress = silent) -> Path:
    """Download a card's model or a hub id into the hub's cache; returns its directory.

    An interrupted download goes on. note: shows the size and the free disk first. Raises HubError
    if the download fails or is not what the hub names, WriteError if the disk refuses it.
    """
    card = load_cards().get(name)
    if card and card.bundled:
        return resolve(name, backend)
    repository = card.repositories(backend)[0] if card else _repository(name)
    return _download(repository, revision or revision_of(repository), note)


def _no_model(name: str, path: Path) -> CheckpointError:
    """The reason why a file, or a directory without a config, is no model."""
    if path.suffix.lower() == GGUF or any(path.glob(f"*{GGUF}")):
        return CheckpointError(
            f"{name} is in llama.cpp's GGUF format, which mmspec does not read: give a directory "
            f"in Hugging Face's layout ({CONFIG_FILE}, tokenizer.json and .safetensors), such as "
            "the repository from which the GGUF file was made"
        )
    if path.is_file():
        return CheckpointError(f"{name} is a file: give the directory of the model")
    return CheckpointError(f"{name} has no {CONFIG_FILE}: it is not a model's directory")


def _pull_first(name: str, backend: str) -> str:
    command = f"mmspec models pull {name} --backend {backend}"
    return f"{name} is not on this machine: run `{command}` where there is network"


def _repository(name: str) -> str:
    """`name` if it has the form of a hub id; raises UsageError otherwise."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(f"there is no directory {name}: give a directory, a card or a hub id")
    if not _REPOSITORY.fullmatch(name):
        nearest = difflib.get_close_matches(name.lower(), load_cards(), n=1)
        hint = f" (nearest: {nearest[0]})" if nearest else ""
        choices = "a directory, a hub id or a name that `mmspec models list` shows"
        raise UsageError(f"unknown model {name!r}: give {choices}{hint}")
    return name


def _download(repository: str, revision: str, note: Progress) -> Path:
    download: Download | None = None
    try:
        download = plan_download(repository, revision)
        fetch(download, note)
    except MmspecError:
        raise
    except Exception as error:  # HTTP, Xet and the disk fail in classes without a common one
        snapshot = None if download else cached_snapshot(repository, revision)
        if snapshot is None:
            raise _unreachable(repository, revision, error) from error
        return snapshot
    try:
        weight_files(download.snapshot)
    except CheckpointError as error:
        raise HubError(
            f"{repository} at {revision} has no complete safetensors weights, and pickles are not "
            "downloaded: name a revision that has them with `--revision`"
        ) from error
    return download.snapshot


def _unreachable(repository: str, revision: str, error: Exception) -> MmspecError:
    from huggingface_hub import constants, errors

    match error:
        case errors.GatedRepoError():
            return HubError(f"{repository} needs its licence accepted: log in with `hf auth login`")
        case errors.RepositoryNotFoundError():
            return HubError(f"{repository} is not on the hub, or is private: check the name")
        case errors.RevisionNotFoundError():
            return HubError(f"{repository} has no revision {revision} on the hub: try main")
        case errors.OfflineModeIsEnabled():
            return HubError(f"{repository} cannot be pulled: HF_HUB_OFFLINE is set; unset it")
        case OSError(errno=number) if number in _DISK_ERRORS:
            return WriteError(
                f"{constants.HF_HUB_CACHE} cannot be written ({os.strerror(number)}): {repository} "
                "is not complete there; make room and pull again"
            )
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return HubError(f"cannot pull {repository}: is there network? ({reason})")
