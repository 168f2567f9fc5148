"""Downloads a repository's files into the hub's cache: resumed, and verified before they count.

huggingface_hub compares sizes alone and begins an interrupted file anew. A file is downloaded here
beside its place, under a name made of the digest that the hub lists for it, and put in place once
its content has that digest. The layout of the cache is the hub's own.
"""

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from mmspec.checkpoints.hub_cache import PULLED
from mmspec.ground.errors import HubError, WriteError
from mmspec.ground.output_files import ABANDONED_SECONDS, replace_file, replace_text
from mmspec.ground.progress import Progress

_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Git's SHA-1 of a small file, SHA-256 of a large one."""
MOST_PROPOSALS = 10
"""Pull requests that are looked at for weights."""
PIECE = 2**20
"""Bytes of a file that are read at a time."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub lists it."""

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Download:
    """The files of one commit of a repository that are wanted, and where the cache has them."""

    repository: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]
    cache: Path

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return self.cache / f"models--{self.repository.replace('/', '--')}"

    @property
    def snapshot(self) -> Path:
        """The directory of the commit's files in the cache."""
        return self.folder / "snapshots" / self.commit

    def place(self, file: HubFile) -> Path:
        """Where readers find a file."""
        return self.snapshot / file.path

    def blob(self, file: HubFile) -> Path:
        """Where the content of a file is, once it is complete."""
        return self.folder / "blobs" / file.digest

    def partial(self, file: HubFile) -> Path:
        """Where the content of a file grows."""
        return self.blob(file).with_suffix(".incomplete")

    def missing(self) -> list[HubFile]:
        """The files that are not in the cache, the large ones last.

        So a snapshot with all its weights has all other files too.
        """
        missing = (file for file in self.files if not self.place(file).exists())
        return sorted(missing, key=lambda file: file.size)


def wanted(repository: str, revision: str) -> Download:
    """What the hub lists; raises the hub's errors, HubError for names and digests that are none."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.hf_api import RepoFile

    api = HfApi()
    commit = api.model_info(repository, revision=revision).sha or ""
    entries = api.list_repo_tree(repository, recursive=True, revision=commit)
    listed = [
        HubFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else entry.blob_id)
        for entry in entries
        if isinstance(entry, RepoFile)
    ]
    for file in listed:
        _check(repository, file)
    files = tuple(file for file in listed if any(fnmatch(file.path, each) for each in PULLED))
    return Download(repository, revision, commit, files, Path(constants.HF_HUB_CACHE))


def proposals(repository: str) -> list[str]:
    """The newest pull requests of a repository that add safetensors; raises the hub's errors."""
    from huggingface_hub import HfApi

    api = HfApi()
    requests = api.list_repo_refs(repository, include_pull_requests=True).pull_requests or []
    newest = sorted(requests, key=lambda each: int(each.ref.rsplit("/", 1)[1]), reverse=True)
    return [
        each.ref
        for each in newest[:MOST_PROPOSALS]
        if any(
            entry.path.endswith(".safetensors")
            for entry in api.list_repo_tree(repository, revision=each.target_commit)
        )
    ]


def _check(repository: str, file: HubFile) -> None:
    """Raise HubError for a name that leads out of the repository, and for a digest of no kind."""
    parts = PurePosixPath(file.path).parts
    if not file.path.isprintable() or "\\" in file.path or {"..", "/", ""} & {*parts, file.path}:
        raise HubError(
            f"{repository} names a file {file.path!r}, which does not lie in its folder: nothing "
            "was downloaded; report it to the hub"
        )
    if not _DIGEST.fullmatch(file.digest):
        raise HubError(
            f"{repository} names no digest of {file.path}, but {file.digest!r}: its content could "
            "not be verified, and nothing was downloaded"
        )


def fetch(download: Download, note: Progress) -> None:
    """Download what is missing; a repetition goes on where one was interrupted.

    note: shows the size and the free disk before the first byte. Raises WriteError if the disk is
    too small, HubError for content that the hub's digest is not of.
    """
    missing = download.missing()
    if missing:
        _require_disk(download, missing, note)
    for file in missing:
        _fetch_one(download, file)
    _delete_abandoned(download.folder / "blobs")
    if not _DIGEST.fullmatch(download.revision):
        reference = download.folder / "refs" / download.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        replace_text(reference, download.commit)


def _delete_abandoned(blobs: Path) -> None:
    """Delete what interrupted downloads left of files that the hub has replaced since."""
    limit = time.time() - ABANDONED_SECONDS
    for partial in blobs.glob("*.incomplete"):
        with suppress(OSError):  # another download has just ended
            if partial.stat().st_mtime < limit:
                partial.unlink()


def _require_disk(download: Download, missing: list[HubFile], note: Progress) -> None:
    size = sum(file.size for file in missing) - sum(
        partial.stat().st_size
        for file in missing
        if (partial := download.partial(file)).exists() and partial.stat().st_size <= file.size
    )
    cache = download.cache
    there = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    line = f"{_amount(size)} in {len(missing)} files, {_amount(free)} free in {cache}"
    if size > free:
        raise WriteError(
            f"{download.repository} does not fit the disk: {line}; make room, or name a folder on "
            "another disk with HF_HOME"
        )
    note(f"{download.repository}: {line}")


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _fetch_one(download: Download, file: HubFile) -> None:
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    partial, blob = download.partial(file), download.blob(file)
    lock = download.cache / ".locks" / download.folder.name / f"{file.digest}.lock"
    for folder in (blob.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if not blob.exists():
            _receive(download, file, partial)
            _verify(download, file, partial)
            partial.replace(blob)
        _link(blob, download.place(file))


def _receive(download: Download, file: HubFile, partial: Path) -> None:
    """Append to `partial` what it lacks."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    with partial.open("ab") as out:
        if out.tell() > file.size:
            out.truncate(0)
        start = out.tell()
        if start < file.size:
            http_get(
                hf_hub_url(download.repository, file.path, revision=download.commit),
                out,
                resume_size=start,
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.path,
            )


def _verify(download: Download, file: HubFile, partial: Path) -> None:
    """Delete a file that is not what the hub names, and raise HubError."""
    digest = _digest(partial, file)
    if digest != file.digest:
        partial.unlink()
        raise HubError(
            f"{download.repository}: {file.path} is not the file that the hub names (its digest is "
            f"{digest[:12]}…, not {file.digest[:12]}…): it was deleted; pull again"
        )


def _digest(path: Path, file: HubFile) -> str:
    """The digest of a file's content, of the kind that the hub lists for it."""
    if len(file.digest) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as content:
        while piece := content.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _link(blob: Path, place: Path) -> None:
    """Let readers find a blob; copy it where the system has no links."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        place.symlink_to(os.path.relpath(blob, place.parent))
    except (OSError, NotImplementedError):
        with replace_file(place) as partial:
            shutil.copyfile(blob, partial)
