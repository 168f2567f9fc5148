"""The methods that --methods names, and their decoding options.

METHOD  = none | [tree[SHAPE]:]lookup | DRAFTED[@DRAFT]
DRAFTED = ([adaptive:][tree[SHAPE]:]LETTERS[:WEIGHTS][/RULE] | [tree[SHAPE]:]KIND)[+lookup]
DRAFT   = a draft's name, repository or directory; needed if several drafts can do the method
SHAPE   = nodes of a dynamic tree, perhaps with its width (20, 30w5; default 60w10), or the
          children of each level of a static one (3x2x1)
LETTERS = one or more of M, T, C, P; P may be followed by its positions, as in P36
KIND    = the kind of the head given as a draft, such as msd
WEIGHTS = one number per letter, as in MTC:2,1,1
RULE    = auto | pool | drop | run: for a view with more positions than the draft has
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from mmspec.chat.options import Options
from mmspec.chat.plugins import is_kind
from mmspec.decoding.tree import NODES, WIDTH, Tree
from mmspec.drafters.views import AND_LOOKUP, LETTERS, LOOKUP, PLAIN, WITHOUT_MODEL, read_letters
from mmspec.ground.errors import UsageError

_NUMBERS = r"\d*\.?\d+(?:,\d*\.?\d+)*"
_FORM = re.compile(
    r"(?:(?P<adaptive>adaptive):)?(?:(?P<tree>tree[^:]*):)?"
    rf"(?P<letters>[A-Z][\w-]*)(?::(?P<weights>{_NUMBERS}))?"
    r"(?:/(?P<rule>\w+))?(?P<lookup>\+lookup)?",
    re.IGNORECASE | re.ASCII,
)
_LETTERS = re.compile(r"(?:P\d+|[A-Z])+", re.IGNORECASE | re.ASCII)
_SHAPE = re.compile(
    r"tree(?:(?P<branching>\d+(?:x\d+)+)|(?P<nodes>\d+)?(?:w(?P<width>\d+))?)",
    re.IGNORECASE | re.ASCII,
)
_SINGLE_VIEW = re.compile(rf"[{''.join(LETTERS)}]\d*(?:[:/][^+@]*)?(?:@.*)?", re.ASCII)
_COMMA = re.compile(r",(?!\d*\.?\d)", re.ASCII)
"""Matches a comma between methods, not between weights."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of answering: its name in the rows, and the decoding options that it sets."""

    name: str
    settings: dict[str, Any]
    """Its decoding options, by their names in `Options`; `drafting` is among them."""
    draft: str = ""
    """The name of the draft that it asks for; empty if it asks for none."""

    @property
    def drafting(self) -> str:
        """The value of --drafting: letters, a head's kind, 'lookup' or 'none'."""
        return str(self.settings["drafting"])

    def options(self, run: Options) -> Options:
        """The options of this method; those that no method sets come from `run`."""
        return replace(run, **self.settings)


def read_methods(text: str) -> list[Method]:
    """Parse methods, and weights after them, separated by commas; raises UsageError."""
    words = _COMMA.split(re.sub(r"\s*,\s*", ",", text.strip()))
    methods = [read_method(word) for word in words if word]
    for name, number in Counter(method.name for method in methods).items():
        if number > 1:
            raise UsageError(f"--methods: {name} is given {number} times; once is enough")
    if not methods:
        raise UsageError("--methods: give at least one, such as M,T,MTC,none")
    return methods


def read_method(word: str) -> Method:
    """Parse one method; raises UsageError for an unknown one."""
    text, at, draft = word.partition("@")
    method = _read(text)
    if not at:
        return method
    if not draft or method.drafting in WITHOUT_MODEL:
        remedy = "after @ name a draft, for views or a head: M@mini-draft"
        raise UsageError(f"--methods: {word!r}: {remedy}")
    return replace(method, name=f"{method.name}@{draft}", draft=draft)


def is_single_view(name: str) -> bool:
    """True if a method of this name drafts chains from one view."""
    return bool(_SINGLE_VIEW.fullmatch(name))


def _read(word: str) -> Method:
    if word.lower() == PLAIN.spec:
        return Method(PLAIN.spec, {"drafting": PLAIN.spec, "tree": None})
    match = _FORM.fullmatch(word)
    kind = match["letters"].lower() if match else ""
    has_letters = not is_kind(kind) and WITHOUT_MODEL.get(kind) != LOOKUP
    beside = (match["lookup"] or "").lower() if match else ""
    is_other = has_letters and not _LETTERS.fullmatch(kind)
    if not match or is_other or (beside and kind in WITHOUT_MODEL):
        raise UsageError(
            f"--methods: {word!r} is no method: use letters of M, T, C, P (such as MTC, P36, "
            "MT:2,1, M/run), adaptive:LETTERS, tree:LETTERS, adaptive:tree:LETTERS, a head's kind, "
            f"any of these with {AND_LOOKUP} or @DRAFT, {', '.join(WITHOUT_MODEL)}"
        )
    settings: dict[str, Any] = {"tree": _tree(word, match["tree"])}
    if not has_letters:
        if match["adaptive"] or match["weights"] or match["rule"]:
            remedy = f"give {kind} or tree:{kind}"
            raise UsageError(f"--methods: {word!r}: {kind} has one view: {remedy}")
        kind = LOOKUP.spec if kind in WITHOUT_MODEL else kind + beside
        return Method(word[: match.start("letters")].lower() + kind, settings | {"drafting": kind})
    settings["drafting"] = "".join(read_letters(re.sub(r"\d", "", match["letters"]))) + beside
    if pool := re.search(r"\d+", match["letters"]):
        settings["pool"] = int(pool[0])
    if match["adaptive"]:
        settings["adaptive"] = True
    if match["weights"]:
        settings["weights"] = tuple(map(float, match["weights"].split(",")))
    if match["rule"]:
        settings["overflow"] = match["rule"].lower()
    Options(**settings)  # refuses what no models can do, before any are loaded
    start, end = match.span("letters")
    return Method(word[:start].lower() + word[start:end].upper() + word[end:].lower(), settings)


def _tree(word: str, shape: str | None) -> Tree | None:
    if shape is None:
        return None
    match = _SHAPE.fullmatch(shape)
    if not match:
        raise UsageError(
            f"--methods: {word!r}: a tree is tree, tree20 or tree30w5 (nodes, width), or the "
            "children of each level, as in tree3x2x1"
        )
    if match["branching"]:
        return Tree(tuple(map(int, match["branching"].lower().split("x"))))
    return Tree((), int(match["width"] or WIDTH), int(match["nodes"] or NODES))
