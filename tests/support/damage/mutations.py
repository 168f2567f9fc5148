"""Damages to the bytes of a file, drawn from a seed: of any file and of known formats."""

import json
import math
import os
import re
import socket
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

DEEP = "~deep~"
"""Stands for lists within lists until the JSON is text: Python cannot write ones so deep."""
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 255, 2**31, -(2**31), 2**63, 10**9, 10**12, -(10**18)),
    *(10**400, 0.5, -0.0, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", "x", "0", "\ud800", "\0", "\x1b]0;owned\x07", "../../etc/passwd", "/etc/passwd", "a\nb"),
    *("x" * 300, "x" * 100_000, "\U0001f600" * 100, "<image>", "</s>", "{{ 1 / 0 }}", "true"),
    *([], {}, [[]], [None], [0] * 10_000, {"a": 1}, {"": None}, DEEP),
)
"""Values that stand where others should."""
HEADS = (
    *(b"", b"\0", b"\xff\xfe\0", b"null", b"[]", b'"', b"{}", b"[" * 100_000, b"\xef\xbb\xbf{}"),
    *(b"%PDF-1.7\n", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"\x7fELF", b"GIF89a", b"\x1f\x8b\x08"),
    *(b"<html>", b"version https://git-lfs.github.com/spec/v1\n", b"\x80\x04c__builtin__\nexec\n."),
)
"""Beginnings of files of other kinds."""

Node = tuple[Any, Any]
"""A dict or list, and a key or index in it."""


def damage_json(content: bytes, draws: Random) -> bytes:
    """JSON that is still JSON, with one to three values changed."""
    value = json.loads(content)
    for _ in range(draws.choice((1, 1, 1, 2, 3))):
        nodes = list(_nodes(value))
        if nodes:
            _change(draws.randrange(16), *draws.choice(nodes), draws)
    text = json.dumps(value)
    deep = draws.choice((50, 900, 100_000))
    text = text.replace(json.dumps(DEEP), "[" * deep + "]" * deep)
    return (_with_repetition(text, draws) if draws.random() < 0.1 else text).encode()


def _nodes(value: Any) -> Iterator[Node]:
    """Every place in a value; of a long list or object only its ends, so that the rest is met."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, inner in pairs if len(pairs) < 40 else pairs[:5] + pairs[-5:]:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _nodes(inner)


def _with_repetition(text: str, draws: Random) -> str:
    """The first key once more, with another value."""
    first = re.match(r'\{("[^"]*"): ', text)
    if not first:
        return text
    return f"{{{first[1]}: {json.dumps(draws.choice((0, '', None, [])))}, {text[1:]}"


def _change(damage: int, inside: Any, key: Any, draws: Random) -> None:
    """Replace, delete, rename, wrap, scale, swap or repeat what stands at a place."""
    value, is_object = inside[key], isinstance(inside, dict)
    match damage:
        case 8 | 9:
            del inside[key]
        case 10 if is_object:
            inside[draws.choice((f"{key}s", "", "\ud800", "x" * 300))] = inside.pop(key)
        case 11:
            inside[key] = draws.choice(([value], {"a": value}, [value] * 3))
        case 12 | 13 if isinstance(value, int | float):
            inside[key] *= draws.choice((-1, 2, 10, 1000, 10**9, 0.5))
        case 12 | 13:
            inside[key] = draws.choice((str(value)[:50], len(str(value))))
        case 14:
            other = draws.choice(list(inside) if is_object else range(len(inside)))
            inside[key], inside[other] = inside[other], value
        case 15 if is_object:
            inside[f"{key} "] = value
        case 15:
            inside += inside[: draws.choice((1, 5, 100))]
        case number if number < 8:
            inside[key] = deepcopy(draws.choice(VALUES))  # later damages change what is inside


def damage_bytes(content: bytes, draws: Random) -> bytes:
    """Any file with bits flipped, bytes lost, doubled or overwritten, or of another kind."""
    place = draws.randrange(len(content) + 1)
    size = draws.choice((1, 2, 8, 100, 4096))
    match draws.randrange(8):
        case 0 | 1:
            return _flipped(content, draws)
        case 2:
            return content[:place]
        case 3:
            return content[:place] + content[place + size :]
        case 4:
            return content[:place] + draws.randbytes(size) + content[place:]
        case 5:
            return content[:place] + content[place : place + size] * 3 + content[place + size :]
        case 6:
            return draws.choice(HEADS) + draws.choice((b"", content, draws.randbytes(100)))
    return content[:place] + b"\0" * size + content[place + size :]


def _flipped(content: bytes, draws: Random) -> bytes:
    """Bits flipped, half the time near the beginning, where headers are."""
    changed = bytearray(content or b"\0")
    end = len(changed) if draws.random() < 0.5 else min(len(changed), 64)
    for _ in range(draws.choice((1, 1, 3, 20))):
        changed[draws.randrange(end)] ^= 1 << draws.randrange(8)
    return bytes(changed)


def damage_safetensors(content: bytes, draws: Random) -> bytes:
    """A safetensors file with another header, another length of it, or numbers not finite."""
    length = int.from_bytes(content[:8], "little")
    header, tensors = content[8 : 8 + length], content[8 + length :]
    match draws.randrange(6):
        case 0 | 1:
            return _joined(damage_json(header, draws), tensors)
        case 2:
            wrong = draws.choice((0, 1, length - 1, length + 1, 10**9, 2**63, 2**64 - 1))
            return wrong.to_bytes(8, "little") + content[8:]
        case 3:
            return _joined(header, draws.choice((tensors[:-1], tensors + b"\0", tensors * 2, b"")))
        case 4:
            return _joined(_exchanged(header, draws), tensors)
    return _joined(header, _not_finite(json.loads(header), tensors, draws))


def _joined(header: bytes, tensors: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + tensors


def _exchanged(header: bytes, draws: Random) -> bytes:
    """The entries of two tensors exchanged, or one entry named twice."""
    entries = json.loads(header)
    first, second = draws.sample([name for name in entries if name != "__metadata__"], 2)
    if draws.random() < 0.5:
        entries[first], entries[second] = entries[second], entries[first]
        return json.dumps(entries).encode()
    twice = f"{json.dumps(first)}: {json.dumps(entries[second])}, "
    return b"{" + twice.encode() + header[1:]


def _not_finite(entries: dict[str, Any], tensors: bytes, draws: Random) -> bytes:
    """All bits of some bytes set, which is NaN in every type of floats."""
    name = draws.choice([name for name in entries if name != "__metadata__"])
    start, end = entries[name]["data_offsets"]
    place = draws.randrange(start // 4, end // 4) * 4
    return tensors[:place] + b"\xff" * 4 + tensors[place + 4 :]


def put_impostor(file: Path, draws: Random) -> None:
    """Put what is no file in place of one, or nothing."""
    file.unlink()
    match draws.randrange(6):
        case 0:
            file.mkdir()
        case 1:
            os.mkfifo(file)
        case 2:
            file.symlink_to("/dev/zero")
        case 3:
            file.symlink_to(file)
        case 4:
            with socket.socket(socket.AF_UNIX) as opened:
                opened.bind(os.path.relpath(file))
