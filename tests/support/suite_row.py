"""Rows made by hand, and what rows of two runs have in common."""

from dataclasses import replace

from mmspec_bench.suite.rows import AnswerRow, RoundRow


def seconds(decode=1.0, total=2.0, **others):
    stages = dict.fromkeys(("vision", "caption", "prefill", "draft", "verify"), 0.0)
    return stages | {"decode": decode, "total": total} | others


def row(sample="a/0", method="M", rounds=((3, 2, 3),), branches=("M",), **others):
    """A row of rounds (drafted, accepted, emitted), trees with their levels as well."""
    parts = [RoundRow(*each[:3], 0.1, 0.2, each[-1] if each[3:] else each[0]) for each in rounds]
    emitted = sum(each.emitted for each in parts)
    values = {
        "task": sample.split("/")[0],
        "images": 1,
        "turn": 0,
        "token_ids": list(range(emitted)),
        "pieces": ["x"] * emitted,
        "prompt_tokens": 10,
        "finish_reason": "stop",
        "seconds": seconds(),
        "peak_memory_bytes": 7,
    }
    return AnswerRow(
        sample=sample, method=method, rounds=parts, branches=list(branches), **values | others
    )


def plain(sample="a/0", tokens=3, **others):
    """A row of plain decoding."""
    return row(sample, "none", [(0, 0, 1)] * tokens, (), **others)


def without_times(row):
    """A row without what differs from run to run."""
    rounds = [each[:3] for each in row.rounds]
    return replace(row, rounds=rounds, seconds={}, peak_memory_bytes=0)
