"""What a long chat costs: memory that stays where it was."""

import gc
from pathlib import Path
from random import Random

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support import factory
from support.opening_process import memory
from support.random_chat import RandomChat

MEBIBYTE = 2**20


def resident() -> int:
    """Bytes of this process in memory now."""
    gc.collect()
    return memory("VmRSS")


def active(backend):
    """Bytes that MLX holds for arrays, which every part of a graph that is kept adds to."""
    if backend != "mlx":
        return 0
    import mlx.core as mx

    mx.synchronize()
    return mx.get_active_memory()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("drafts", ["any", "lookup"])
def test_two_thousand_turns_are_those_of_plain_cold_runs_in_flat_memory(
    drafts, backend, tmp_path, capsys
):
    """Images, undo, retry, reset, interrupts and resumed conversations, by any drafting."""
    target, draft = factory.tiny_pair(tmp_path, positions=1024)
    engine = load(target, "none" if drafts == "lookup" else draft, backend=backend)
    chat = RandomChat(engine, Random(0), Options(max_new_tokens=12))
    marks = []
    for number in range(2000):
        chat.step()
        if number % 100 == 99:
            engine.forget()  # vision features, which a limit in bytes bounds
            marks.append((resident(), active(backend), len(gc.get_objects())))
    counts, (process, arrays, objects) = chat.counts, zip(*marks, strict=True)
    with capsys.disabled():
        megabytes = [size // MEBIBYTE for size in process]
        print(f"\n{backend}, {drafts}: {dict(counts)}; MiB after each hundred: {megabytes}")  # noqa: T201
    assert counts["drafted"] >= 1000
    assert counts["bug"] == 0
    assert counts["near-tie"] <= 2  # random weights, forwards of several rows that are not exact
    assert max(process[1:]) < process[0] + 24 * MEBIBYTE  # arenas of an allocator
    assert max(arrays[1:]) < max(arrays[0], 2 * MEBIBYTE) * 4  # conversations differ in length
    assert max(objects[1:]) < 1.03 * objects[0]  # one drafter for each drafting that was chosen
