"""Finds snapshots in the hub's cache on this machine, without network access."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.loading_plan import weight_files
from mmspec.ground.errors import CheckpointError, HubError

PATTERNS = ["*.json", "*.jinja", "*.model", "*.safetensors"]
"""Patterns of the files that `pull` downloads: never pickles, never code."""


def cached_snapshot(repository: str, revision: str) -> Path | None:
    """The directory of a repository in the hub's cache; None unless all its files are there."""
    snapshot = _snapshot(repository, revision=revision, allow_patterns=PATTERNS)
    return snapshot if snapshot and is_whole(snapshot) else None


def latest_snapshot(repository: str) -> Path | None:
    """The directory of the whole snapshot of any revision that was pulled last, if there is one."""
    from huggingface_hub import constants

    folder = f"models--{repository.replace('/', '--')}"
    snapshots = (Path(constants.HF_HUB_CACHE) / folder / "snapshots").glob("*")
    whole = filter(is_whole, snapshots)
    return max(whole, key=lambda snapshot: snapshot.stat().st_mtime, default=None)


def delete(repositories: Iterable[str]) -> int:
    """Delete models from the cache; returns the bytes freed.  Raises HubError if none is there."""
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    names = set(repositories)
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except (CacheNotFound, ValueError):  # there is no cache, or a file in its place
        cache = None
    entries = [entry for entry in cache.repos if entry.repo_id in names] if cache else []
    if cache is None or not entries:
        raise HubError(f"{' and '.join(sorted(names))}: not in {constants.HF_HUB_CACHE}")
    commits = (entry.commit_hash for repository in entries for entry in repository.revisions)
    plan = cache.delete_revisions(*commits)
    plan.execute()
    return int(plan.expected_freed_size)


def cached_dataset(repository: str, pattern: str) -> list[Path]:
    """The files of a dataset that are in the cache and match `pattern`, in order."""
    snapshot = _snapshot(repository, repo_type="dataset")
    return sorted(snapshot.glob(pattern)) if snapshot else []


def _snapshot(repository: str, **options: Any) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, local_files_only=True, **options))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def is_whole(directory: Path) -> bool:
    """True if the config and all weight files are in `directory`."""
    if not (directory / CONFIG_FILE).is_file():
        return False
    try:
        weight_files(directory)
    except CheckpointError:
        return False
    return True
