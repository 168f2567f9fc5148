"""What a long chat costs: memory that stays where it was, and a start that is short."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.images import picture_from
from support import factory
from support.random_chat import RandomChat

TURNS, SETTLED = 200, 60
"""The first turns fill the caches that are bounded, of 32 images' features for one."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MEBIBYTE = 2**20
CPU_SECONDS = {"torch": 2.5, "mlx": 1.5}


def resident() -> int:
    """Bytes of this process in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def picture(turn):
    return picture_from(Image.new("RGB", (32, 32), (turn, 255 - turn, 90)), f"turn {turn}")


@pytest.fixture(autouse=True)
def _few_features(monkeypatch):
    """Features of tiny images would fill their cache only after thousands of turns."""
    monkeypatch.setattr("mmspec.chat.loaded_model.MAX_FEATURES", 2**16)


@pytest.fixture
def chat(backend, tmp_path):
    target, draft = factory.tiny_pair(tmp_path, positions=8192)
    engine = load(str(target), str(draft), backend=backend, device="cpu")
    return engine.chat(Options(drafting="MT", gamma=3, max_new_tokens=6))


def active(backend):
    """Bytes that MLX holds for arrays, which every part of a graph that is kept adds to."""
    if backend != "mlx":
        return 0
    import mlx.core as mx

    mx.synchronize()
    return mx.get_active_memory()


def growth(chat, backend, turn):
    """Bytes added between the turns SETTLED and TURNS: of the process, and of MLX's arrays."""
    marks = []
    for number in range(TURNS):
        if number in (SETTLED, TURNS - 1):
            marks.append((resident(), active(backend), len(gc.get_objects())))
        turn(number)
    before, after = marks
    return tuple(last - first for first, last in zip(before, after, strict=True))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_flat_over_turns_that_are_undone(chat, backend):
    def turn(number):
        chat.reply("what is this?", [picture(number)])
        chat.conversation.undo()

    process, arrays, objects = growth(chat, backend, turn)
    assert process < 4 * MEBIBYTE  # the steps of an allocator; what one turn holds is 0.1 each
    assert arrays < MEBIBYTE // 16
    assert objects < TURNS


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_a_conversation_grows_by_its_keys_and_values_alone(chat, backend):
    process, arrays, _ = growth(chat, backend, lambda _: chat.reply("and this?"))
    positions = chat.answer.statistics.prompt_tokens
    assert positions > TURNS * 10
    # Keys and values of two layers of 64 in float32: of the target, and of two branches; caches
    # grow by doubling, and the one before is free only after.
    held = positions * 2 * 2 * 64 * 4 * 3
    assert process < 4 * held + 4 * MEBIBYTE
    assert arrays < 2 * held + MEBIBYTE


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_two_thousand_turns_are_those_of_plain_cold_runs_in_flat_memory(backend, tmp_path, capsys):
    """Images, undo, retry, reset, interrupts and resumed conversations, by any drafting."""
    engine = load(*map(str, factory.tiny_pair(tmp_path, positions=1024)), backend=backend)
    chat = RandomChat(engine, Random(0), Options(max_new_tokens=12))
    marks = []
    for number in range(2000):
        chat.step()
        if number % 100 == 99:
            marks.append((resident(), active(backend), len(gc.get_objects())))
    counts, (process, arrays, objects) = chat.counts, zip(*marks, strict=True)
    with capsys.disabled():
        megabytes = [size // MEBIBYTE for size in process]
        print(f"\n{backend}: {dict(counts)}; MiB after each hundred: {megabytes}")  # noqa: T201
    assert counts["drafted"] >= 1000
    assert counts["bug"] == counts["near-tie"] == 0
    assert max(process[1:]) < process[0] + 24 * MEBIBYTE  # arenas of an allocator
    assert max(arrays[1:]) < max(arrays[0], 2 * MEBIBYTE) * 4  # conversations differ in length
    assert max(objects[1:]) < 1.01 * objects[0]


@pytest.mark.slow
def test_the_first_token_comes_soon(backend):
    """Of a chat, in seconds of CPU, which other work on the machine hardly changes."""
    resource = pytest.importorskip("resource")
    words = "chat --model mini --max-new-tokens 1 --plain --backend"
    command = [sys.executable, "-m", "mmspec_cli", *words.split(), backend]
    taken = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=b"hello\n", check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < CPU_SECONDS[backend]
