"""Which model for images to take: of those on this machine, and of those that it has memory for."""

import os

from mmspec.checkpoints.cards import Card, load_cards, present
from mmspec.checkpoints.manifest import weight_bytes

BEST_FIRST = (
    *("qwen3.8-27b", "qwen3.5-27b", "qwen3-vl-32b", "qwen3.5-9b", "qwen3-vl-8b"),
    *("qwen2.5-vl-7b", "qwen3.5-4b", "qwen3-vl-4b", "llava-1.5-13b", "qwen2.5-vl-3b"),
    *("qwen3.5-2b", "llava-1.5-7b", "qwen3-vl-2b", "qwen3.5-0.8b"),
)
"""Targets that see photographs: larger ones first, but of two generations the newer.

The order is a judgement by size and age, for no benchmark was run on all of them.
"""

MINI = "mini"

SHARE = 0.6
"""Share of the machine's memory that the weights of target and draft may take."""


def memory_bytes() -> int | None:
    """Bytes of physical memory; None if the system does not report it."""
    if not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def best_here(backend: str) -> str:
    """The best target on this machine that sees images; the bundled one if there is no other."""
    cards = load_cards()
    return next((name for name in BEST_FIRST if present(cards[name], backend)), MINI)


def size(card: Card, backend: str) -> int:
    """Bytes of a model's weights in the format that is pulled for a backend; 0 if not known."""
    repository = (*card.repositories(backend), "")[0]
    return weight_bytes(card.model, 4 if repository.endswith("-4bit") else 16) if card.model else 0


def pair_size(name: str, backend: str) -> int:
    """Bytes of the weights of a target and of the draft that its card names."""
    cards = load_cards()
    draft = cards[name].pair
    return size(cards[name], backend) + (size(cards[draft], backend) if draft else 0)


def recommend(backend: str, memory: int | None) -> str:
    """The best target whose weights, with the draft's, take SHARE of the memory at most."""
    room = SHARE * (memory or 0)
    names = (name for name in BEST_FIRST if pair_size(name, backend) <= room)
    return next(names, MINI)


def advice(backend: str, memory: int | None = None) -> str:
    """One line: the model to take here, and its command.  memory: bytes; None reads them."""
    memory = memory or memory_bytes()
    name = recommend(backend, memory)
    if name == MINI:
        return f"this machine has too little memory for photographs: {MINI} needs the least"
    draft = load_cards()[name].pair
    pair = f"{name}, with its draft {draft}" if draft else name
    directory = present(load_cards()[name], backend)
    command = f"mmspec {'chat --model' if directory else 'models pull'} {name} --backend {backend}"
    return (
        f"for photographs on {backend} with {(memory or 0) / 2**30:.0f} GB: `{command}` ({pair}: "
        f"{pair_size(name, backend) / 1e9:.0f} GB; chosen by size and age, not measured here)"
    )
