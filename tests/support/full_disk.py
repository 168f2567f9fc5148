"""A disk that is full: a small tmpfs where this process may mount one, else a limit on file sizes.

As root on Linux the commands meet a real file system without space (ENOSPC). Elsewhere, as in most
CI, `RLIMIT_FSIZE` ends each file at a number of bytes (EFBIG); writes fail at the same places.
"""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096
"""Bytes of the smallest piece of a tmpfs."""
ROOMY = 1 << 20
"""Kilobytes of a disk that is not full."""


def _mount(folder: Path, options: str) -> bool:
    """Mount a tmpfs on `folder`, or change its options; False if this process may not."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@dataclass(frozen=True)
class Disk:
    """A folder whose disk can be full or read-only."""

    folder: Path
    is_tmpfs: bool

    @contextmanager
    def full(self, free: int = 0) -> Iterator[None]:
        """Context in which at most `free` bytes can be written: to the disk, or to each file.

        A tmpfs takes whole pages alone.
        """
        if not self.is_tmpfs:
            _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            return
        used = subprocess.run(
            ["df", "-Pk", str(self.folder)], capture_output=True, check=True
        ).stdout.split()[-4]
        with self._remounted(f"size={int(used) + free // PAGE * PAGE // 1024}k"):
            yield

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Context in which nothing can be made or changed; chmod holds no one but non-root."""
        if self.is_tmpfs:
            with self._remounted("ro"):
                yield
            return
        self.folder.chmod(0o500)
        try:
            yield
        finally:
            self.folder.chmod(0o700)

    @contextmanager
    def _remounted(self, options: str) -> Iterator[None]:
        assert _mount(self.folder, f"remount,{options}")
        try:
            yield
        finally:
            assert _mount(self.folder, f"remount,rw,size={ROOMY}k")


@contextmanager
def opened_disk(folder: Path) -> Iterator[Disk]:
    """A new disk at `folder`, on a tmpfs if possible."""
    folder.mkdir()
    disk = Disk(folder, _mount(folder, f"size={ROOMY}k"))
    (folder / "other.bin").write_bytes(bytes(4096))  # a tmpfs of size 0 would have no limit
    try:
        yield disk
    finally:
        if disk.is_tmpfs:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
