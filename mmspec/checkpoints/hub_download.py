"""Downloads a repository's files into the hub's cache, and verifies them by the hub's digests.

huggingface_hub lays out the cache. It compares sizes alone and begins an interrupted file anew, so
contents are downloaded here, under names made of the digests that the hub lists: the next download
goes on with them, and huggingface_hub finds only those that have their digests.
"""

import hashlib
import re
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from mmspec.checkpoints.hub_cache import PATTERNS
from mmspec.ground.errors import HubError, WriteError
from mmspec.ground.output_files import delete_leftovers, replace_text
from mmspec.ground.progress import Progress
from mmspec.ground.sizes import distinct_amounts

_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Git's SHA-1 of a small file, SHA-256 of a large one."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub lists it, and where the cache has its content."""

    path: str
    size: int
    digest: str
    blob: Path

    @property
    def partial(self) -> Path:
        """Where the content grows until it is complete."""
        return self.blob.with_suffix(".incomplete")

    @property
    def missing_bytes(self) -> int:
        """The bytes that a download has to fetch."""
        start = self.partial.stat().st_size if self.partial.exists() else 0
        return self.size - start if start <= self.size else self.size


@dataclass(frozen=True, slots=True)
class Download:
    """The files of one commit of a repository that are wanted."""

    repository: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]
    folder: Path
    """The repository's folder in the cache."""

    @property
    def snapshot(self) -> Path:
        """The directory of the commit's files in the cache."""
        return self.folder / "snapshots" / self.commit


def plan_download(repository: str, revision: str) -> Download:
    """The hub's list; raises the hub's errors, HubError for names and digests that are none."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.hf_api import RepoFile

    api = HfApi()
    commit = api.model_info(repository, revision=revision).sha or ""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    files = list[HubFile]()
    for entry in api.list_repo_tree(repository, recursive=True, revision=commit):
        if isinstance(entry, RepoFile):
            digest = entry.lfs.sha256 if entry.lfs else entry.blob_id
            _check(repository, entry.path, digest)
            files.append(HubFile(entry.path, entry.size, digest, folder / "blobs" / digest))
    matches = (file for file in files if any(fnmatch(file.path, pattern) for pattern in PATTERNS))
    return Download(repository, revision, commit, tuple(matches), folder)


def _check(repository: str, path: str, digest: str) -> None:
    """Raise HubError for a name that leads out of the repository, and for a digest of no kind."""
    parts = PurePosixPath(path).parts
    if not path.isprintable() or "\\" in path or {"..", "/", ""} & {*parts, path}:
        raise HubError(
            f"{repository} names a file {path!r}, which does not lie in its folder: nothing "
            "was downloaded; report it to the hub"
        )
    if not _DIGEST.fullmatch(digest):
        raise HubError(
            f"{repository} names no digest of {path}, but {digest!r}: its content could "
            "not be verified, and nothing was downloaded"
        )


def fetch(download: Download, note: Progress) -> None:
    """Download the missing files; a repetition goes on where one was interrupted.

    note: shows the size and the free disk before the first byte. Raises WriteError if the disk is
    too small, HubError for content that the hub's digest is not of.
    """
    from huggingface_hub import snapshot_download

    missing_files = [file for file in download.files if not file.blob.exists()]
    if missing_files:
        _require_disk(download, missing_files, note)
    for file in missing_files:
        _fetch_blob(download, file)
    snapshot_download(download.repository, revision=download.commit, allow_patterns=PATTERNS)
    delete_leftovers(download.folder / "blobs", "*.incomplete")  # of files replaced since
    if download.revision != download.commit:  # last, so that an older snapshot stands until now
        reference = download.folder / "refs" / download.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        replace_text(reference, download.commit)


def _require_disk(download: Download, files: list[HubFile], note: Progress) -> None:
    size = sum(file.missing_bytes for file in files)
    cache = download.folder.parent
    parent = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    free = shutil.disk_usage(parent).free
    size_text, free_text = distinct_amounts(size, free)
    line = f"{size_text} in {len(files)} files, {free_text} free in {cache}"
    if size > free:
        raise WriteError(
            f"{download.repository} does not fit the disk: {line}; make room, or name a folder on "
            "another disk with HF_HOME"
        )
    note(f"{download.repository}: {line}")


def _fetch_blob(download: Download, file: HubFile) -> None:
    """Append to the partial file what it lacks, and make it the blob if it has the digest."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    folder = download.folder
    lock = folder.parent / ".locks" / folder.name / f"{file.digest}.lock"
    for parent in (file.blob.parent, lock.parent):
        parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if file.blob.exists():
            return
        _receive(download, file)
        digest = _digest(file)
        if digest != file.digest:
            file.partial.unlink()
            raise HubError(
                f"{download.repository}: {file.path} is not the file that the hub names (its "
                f"digest is {digest[:12]}…, not {file.digest[:12]}…): it was deleted; pull again"
            )
        file.partial.replace(file.blob)


def _receive(download: Download, file: HubFile) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    with file.partial.open("ab") as out:
        if out.tell() > file.size:
            out.truncate(0)
        if (start := out.tell()) < file.size:
            http_get(
                hf_hub_url(download.repository, file.path, revision=download.commit),
                out,
                resume_size=start,
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.path,
            )


def _digest(file: HubFile) -> str:
    """The digest of the partial file, of the kind that the hub lists for it."""
    if len(file.digest) == 64:
        hasher = hashlib.sha256()
    else:
        size = file.partial.stat().st_size
        hasher = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with file.partial.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hasher).hexdigest()
