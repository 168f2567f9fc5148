"""Where results cannot be written: one line, and before anything is measured."""

import subprocess
import sys

import pytest

from mmspec.prompt.images import READ

NO_IMAGE = f"mmspec: standard input: not an image that can be read: {READ} are\n"
NO_OUTPUT = "mmspec: standard output is closed: nothing could be shown\n"


@pytest.mark.parametrize(
    ("closing", "arguments", "status", "said"),
    [
        ("<&-", ["generate", "-", "--prompt", "What?"], 2, NO_IMAGE),
        (">&-", ["generate", "--prompt", "Hello?"], 2, NO_OUTPUT),
    ],
)
def test_a_closed_stream_is_one_line(pair, closing, arguments, status, said):
    command = [sys.executable, "-m", "mmspec_cli", *arguments, *pair]
    shell = ["sh", "-c", f'exec "$@" {closing}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == status
    assert done.stderr == said


def test_no_file_takes_the_place_of_closed_streams(pair_paths):
    """MLX reads no file at descriptor 0, and what is written to 2 must reach none."""
    target, draft = map(str, pair_paths)
    command = [sys.executable, "-m", "mmspec_cli", "generate", "--prompt", "hi", "--model", target]
    command += ["--draft", draft, "--backend", "mlx", "--max-new-tokens", "2"]
    shell = ["sh", "-c", '"$@" <&- 2>&-', "sh", *command]
    ended = subprocess.run(shell, stdout=subprocess.PIPE, check=False)
    assert ended.returncode == 0
    assert ended.stdout
