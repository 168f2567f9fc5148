"""M-RoPE: which rotary frequencies turn by time, by row and by column."""

from collections.abc import Sequence
from typing import Annotated

from mmspec.ground.json_file import Block
from mmspec.ground.limits import Range

Section = Annotated[int, Range(0, 1_000_000)]


def rope_block(text: Block) -> Block:
    """Where a decoder's rotary positions are: transformers 5's `rope_parameters`, or before."""
    return text.block("rope_parameters" if text.get("rope_parameters") else "rope_scaling")


def read_sections(rope: Block, default: Sequence[int]) -> tuple[int, ...]:
    """Numbers of frequencies for time, row and column.  Raises CheckpointError."""
    kind = tuple[Section, Section, Section]
    sections: tuple[int, ...] = rope.read("mrope_section", kind, default)
    return sections


def chunked_axes(rope: Block, head_dim: int, default: Sequence[int]) -> tuple[int, ...]:
    """What turns each frequency of a head, in chunks.  Raises CheckpointError."""
    axes = chunked(read_sections(rope, default))
    if len(axes) != head_dim // 2:
        raise rope.error("mrope_section", f"three numbers of sum {head_dim // 2}")
    return axes


def optional_axes(rope: Block, head_dim: int) -> tuple[int, ...]:
    """What turns each frequency where the config may say it; empty for one position a token.

    As in vLLM, `mrope_section` says that there are three, whatever the kind is called.
    """
    if rope.get("mrope_section") is None:
        if "mrope" in (rope.get("rope_type"), rope.get("type")):
            raise rope.error("mrope_section", f"three numbers of sum {head_dim // 2}")
        return ()
    axes = chunked_axes(rope, head_dim, ())
    if rope.flag("mrope_interleaved", False):
        return interleaved(len(axes), read_sections(rope, ()))
    return axes


def described_axes(axes: Sequence[int]) -> dict[str, object]:
    """The `rope_scaling` from which `optional_axes` reads these axes."""
    sections = [axes.count(axis) for axis in range(3)]
    apart = tuple(axes) != chunked(sections)
    return {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": apart}


def interleaved(count: int, sections: Sequence[int]) -> tuple[int, ...]:
    """For each of `count` frequencies, what turns it: 0 time, 1 row, 2 column.

    Row and column take every third frequency, from the second and third on, as far as their
    sections reach; time has all others.
    """
    reach = [3 * section for section in sections]
    return tuple(index % 3 if index < reach[index % 3] else 0 for index in range(count))


def chunked(sections: Sequence[int]) -> tuple[int, ...]:
    """For each frequency, what turns it: first those of time, then of row, then of column."""
    return tuple(axis for axis, size in enumerate(sections) for _ in range(size))
