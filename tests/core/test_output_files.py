"""Files and directories are written beside their place: a failure leaves the old content."""

import os
import stat
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from mmspec.ground.errors import WriteError
from mmspec.ground.output_files import (
    ABANDONED_SECONDS,
    make_directory,
    new_directory,
    replace_file,
    replace_text,
)
from support.full_disk import Disk

OLD, NEW = "old " * 40_000, "new " * 30_000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(disk: Disk) -> Path:
    file = disk.folder / "file.json"
    file.write_text(OLD)
    return file


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"other.bin"}


@pytest.mark.parametrize("write", [make_directory, replace_file, new_directory])
def test_a_name_that_no_file_can_have_is_named(write):
    with pytest.raises(WriteError, match=r"^a\x00b cannot be written \(embedded null byte\)$"):
        ExitStack().enter_context(write(Path("a\0b")))


def test_a_read_only_folder_is_named(disk, file):
    if not os.getuid() and not disk.is_tmpfs:
        pytest.skip("root may write anywhere but on a read-only mount")
    with disk.read_only():
        with pytest.raises(WriteError, match=f"{file} cannot be written"):
            replace_text(file, NEW)
        with pytest.raises(WriteError, match="/a cannot be written"):
            new_directory(file.parent / "a").__enter__()
        with pytest.raises(WriteError, match="/b/c cannot be written"):
            make_directory(file.parent / "b" / "c")
    assert file.read_text() == OLD
    assert names(file.parent) == {"file.json"}


def fill_and_raise(partial: Path, error: type[BaseException]) -> None:
    """Write a partial file or directory, and raise before it is put in place."""
    inner = partial / "inner" / "large" if partial.is_dir() else partial
    inner.parent.mkdir(exist_ok=True)
    inner.write_text(NEW)
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_a_block_that_raises_changes_nothing(file, error):
    with pytest.raises(error), replace_file(file) as partial:
        fill_and_raise(partial, error)
    with pytest.raises(error), new_directory(file.parent / "a") as partial:
        fill_and_raise(partial, error)
    assert file.read_text() == OLD
    assert names(file.parent) == {"file.json"}


def test_a_directory_with_files_is_not_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    with new_directory(tmp_path / "a") as directory:  # an empty one is
        (directory / "first").write_text("1")
    refused = pytest.raises(WriteError, match=r"not empty\); its old content stands")
    with refused, new_directory(tmp_path / "a") as directory:
        (directory / "second").write_text("2")
    assert names(tmp_path) == {"a"}
    assert names(tmp_path / "a") == {"first"}


def test_permissions_are_the_old_file_s_or_the_owner_s_alone(file):
    with replace_file(file, private=True) as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    file.chmod(0o640)
    replace_text(file, "a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    replace_text(file, "b", private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    replace_text(file.with_name("new"), "c", private=True)
    assert stat.S_IMODE(file.with_name("new").stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        replace_text(file.with_name("shared"), "d")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.with_name("shared").stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_stays(tmp_path):
    """As a device would be; none of this machine's is at stake if the code is wrong."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_text(pipe, "a")
    assert os.read(reader, 9) == b"a"
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(WriteError, match="Is a directory"):
        replace_text(tmp_path, "a")


def test_what_a_killed_process_left_is_deleted_after_a_while(tmp_path):
    old, young = tmp_path / ".mmspec-1.partial", tmp_path / ".mmspec-2.partial"
    busy = tmp_path / ".mmspec-3.partial"
    old.mkdir()
    busy.mkdir()
    for file in (old / "a", busy / "a", young):
        file.write_text("a")
    past = time.time() - ABANDONED_SECONDS - 60
    for path in (old / "a", old, busy):
        os.utime(path, (past, past))
    replace_text(tmp_path / "file", "a")
    assert names(tmp_path) == {"file", young.name, busy.name}


KILLED_AT_EVERY_LINE = """
import itertools, os, shutil, signal, sys
from pathlib import Path
from mmspec.ground import output_files

def kill_at(count):
    lines = itertools.count(1)
    def trace(frame, event, _):
        if frame.f_code.co_filename != output_files.__file__:
            return None
        if event == "line" and next(lines) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)

def write(folder):
    output_files.replace_text(folder / "file", "new")
    with output_files.new_directory(folder / "directory") as partial:
        (partial / "a").write_text("new")
        (partial / "b").write_text("new")

def content(path):
    return {file.name: file.read_text() for file in path.iterdir()} if path.is_dir() else None

seen = []
for count in itertools.count(1):
    folder = Path(sys.argv[1]) / str(count)
    folder.mkdir()
    (folder / "file").write_text("old")
    child = os.fork()
    if not child:
        kill_at(count)
        write(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    seen.append(((folder / "file").read_text(), content(folder / "directory")))
    shutil.rmtree(folder)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        break
whole = {"a": "new", "b": "new"}
kinds = [("old", None), ("new", None), ("new", whole)]
order = [kinds.index(state) for state in seen]
assert order == sorted(order) and set(order) == {0, 1, 2}, seen
print(len(seen))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
def test_a_kill_at_any_line_leaves_the_old_or_the_new(tmp_path):
    command = [sys.executable, "-c", KILLED_AT_EVERY_LINE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
