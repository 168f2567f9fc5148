"""Snapshots in the hub's cache on this machine, found without any network."""

from pathlib import Path

from mmspec.checkpoint import weight_files
from mmspec.config import CONFIG_FILE
from mmspec.errors import CheckpointError

PULLED = ["*.json", "*.jinja", "*.model", "*.safetensors"]
"""What a model needs: never pickles, never code."""


def cached(repository: str, revision: str) -> Path | None:
    """Return the snapshot of a repository if it is in the cache and whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        found = snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=PULLED
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return Path(found) if is_whole(Path(found)) else None


def cached_dataset(repository: str, pattern: str) -> list[Path]:
    """Return the files of a dataset that are in the cache and match `pattern`, in order."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(repository, repo_type="dataset", local_files_only=True)
    except LocalEntryNotFoundError:
        return []
    return sorted(Path(found).glob(pattern))


def is_whole(directory: Path) -> bool:
    """Say whether a config and every weight file that it needs are there."""
    if not (directory / CONFIG_FILE).is_file():
        return False
    try:
        weight_files(directory)
    except CheckpointError:
        return False
    return True
