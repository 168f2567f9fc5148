"""Finds snapshots in the hub's cache on this machine, without network access."""

from pathlib import Path

from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.loading_plan import weight_files
from mmspec.errors import CheckpointError

PULLED = ["*.json", "*.jinja", "*.model", "*.safetensors"]
"""Patterns of the files that `pull` downloads: never pickles, never code."""


def cached(repository: str, revision: str) -> Path | None:
    """The directory of a repository in the hub's cache; None unless all its files are there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=PULLED
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return Path(snapshot) if is_whole(Path(snapshot)) else None


def cached_dataset(repository: str, pattern: str) -> list[Path]:
    """The files of a dataset that are in the cache and match `pattern`, in order."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(repository, repo_type="dataset", local_files_only=True)
    except LocalEntryNotFoundError:
        return []
    return sorted(Path(snapshot).glob(pattern))


def is_whole(directory: Path) -> bool:
    """True if the config and all weight files are in `directory`."""
    if not (directory / CONFIG_FILE).is_file():
        return False
    try:
        weight_files(directory)
    except CheckpointError:
        return False
    return True
