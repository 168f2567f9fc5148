"""The methods that --methods names, and their decoding options.

METHOD  = none | ngram | PROBE | DRAFTED[@DRAFT]
DRAFTED = [adaptive:][tree[SHAPE]:]LETTERS[:WEIGHTS][/RULE] | [tree[SHAPE]:]KIND
DRAFT   = a draft's name, repository or directory; needed if several drafts can do the method
SHAPE   = nodes of a dynamic tree, perhaps with its width (20, 30w5; default 60w10), or the
          children of each level of a static one (3x2x1)
LETTERS = one or more of M, T, C, P; P may be followed by its positions, as in P36
KIND    = that of the head given as a draft, such as msd
WEIGHTS = one number per letter, as in MTC:2,1,1
RULE    = auto | pool | drop | run: for a view that is longer than the draft's positions
PROBE   = none:blank | draft | draft:blank: grey images, or the draft alone
"""

import re
from dataclasses import dataclass, fields, replace

from mmspec.chat.options import Options
from mmspec.chat.plugins import is_kind
from mmspec.decoding.adaptive_weights import Adaptation
from mmspec.decoding.tree import NODES, WIDTH, Tree
from mmspec.drafters.views import LETTERS, OVERFLOWS, UNLETTERED, read_letters
from mmspec.ground.errors import UsageError
from mmspec_bench.suite.rows import PLAIN

NGRAM = "ngram"
DRAFT = "draft"
BLANK = ":blank"
PROBES = (PLAIN + BLANK, DRAFT, DRAFT + BLANK)
"""Methods that test what target and draft know; their answers differ from plain decoding's."""

_FORM = re.compile(
    r"(?:(?P<adaptive>adaptive):)?(?:(?P<tree>tree[^:]*):)?"
    r"(?P<letters>[A-Z][\w-]*)(?::(?P<weights>[\d.,]+))?"
    r"(?:/(?P<rule>\w+))?",
    re.IGNORECASE | re.ASCII,
)
_LETTERS = re.compile(r"(?:P\d+|[A-Z])+", re.IGNORECASE | re.ASCII)
_SHAPE = re.compile(
    r"tree(?:(?P<branching>\d+(?:x\d+)+)|(?P<nodes>\d+)?(?:w(?P<width>\d+))?)",
    re.IGNORECASE | re.ASCII,
)
_SINGLE_VIEW = re.compile(rf"[{''.join(LETTERS)}]\d*(?:[:/@].*)?", re.ASCII)
_NUMBER = re.compile(r"[\d.]+(?:/\w+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Method:
    """One method of answering: its name in the rows, and the decoding options that it sets."""

    name: str
    drafting: str = PLAIN
    adaptive: Adaptation | None = None
    tree: Tree | None = None
    pool: int | None = None
    weights: tuple[float, ...] = ()
    overflow: str = OVERFLOWS[0]
    draft: str = ""
    """The name of the draft that it asks for; empty if it asks for none."""

    def options(self, others: Options) -> Options:
        """The options of this method; those that no method sets come from `others`."""
        names = {entry.name for entry in fields(self)} - {"name", "draft"}
        return replace(others, **{name: getattr(self, name) for name in names})

    @property
    def probe(self) -> bool:
        """True if it tests what a model knows, so that its answer may differ from the target's."""
        return self.name in PROBES

    @property
    def blank(self) -> bool:
        """True if images are replaced by grey ones."""
        return self.name.endswith(BLANK)

    @property
    def of_draft(self) -> bool:
        """True if the draft answers instead of the target."""
        return self.name.startswith(DRAFT)


def read_methods(text: str) -> list[Method]:
    """Parse methods separated by commas; numbers are weights of the method before them.

    Raises UsageError for an unknown method and for one that occurs twice.
    """
    words: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if words and _NUMBER.fullmatch(part):
            words[-1] += f",{part}"
        else:
            words.append(part)
    methods = [read_method(word) for word in words]
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"--methods: {name} is given {names.count(name)} times; once is enough"
            )
    if not methods:
        raise UsageError("--methods: give at least one, such as M,T,MTC,none")
    return methods


def read_method(word: str) -> Method:
    """Parse one method; raises UsageError for an unknown one."""
    text, at, draft = word.partition("@")
    method = _read(text)
    if not at:
        return method
    if not draft or method.drafting in UNLETTERED:
        raise UsageError(
            f"--methods: {word!r}: after @ name a draft, for views or a head: M@mini-draft"
        )
    return replace(method, name=f"{method.name}@{draft}", draft=draft)


def is_single_view(name: str) -> bool:
    """True if a method of this name drafts chains from one view."""
    return bool(_SINGLE_VIEW.fullmatch(name))


def _read(word: str) -> Method:
    name = word.lower()
    if name in (PLAIN, NGRAM, *PROBES):
        return Method(name, NGRAM if name == NGRAM else PLAIN)
    match = _FORM.fullmatch(word)
    kind = match["letters"].lower() if match else ""
    if match and is_kind(kind):
        return _head_method(word, kind, match)
    if not match or not _LETTERS.fullmatch(kind):
        raise UsageError(
            f"--methods: {word!r} is no method: use letters of M, T, C, P (such as MTC, P36, "
            "MT:2,1, M/run), adaptive:LETTERS, tree:LETTERS, adaptive:tree:LETTERS, a head's kind, "
            f"any of these with @DRAFT, {', '.join((NGRAM, PLAIN, *PROBES))}"
        )
    letters = "".join(read_letters(re.sub(r"\d", "", match["letters"])))
    pool = re.search(r"\d+", match["letters"])
    method = Method(
        _name(word, match.start("letters")),
        letters,
        adaptive=Adaptation() if match["adaptive"] else None,
        tree=_tree(word, match["tree"]),
        pool=int(pool[0]) if pool else None,
        weights=_weights(word, match["weights"] or "", len(letters)),
        overflow=(match["rule"] or OVERFLOWS[0]).lower(),
    )
    if method.adaptive and method.weights:
        raise UsageError(f"--methods: {word!r}: adaptive weights cannot be given")
    method.options(Options())  # refuses what no models can do, before any are loaded
    return method


def _head_method(word: str, kind: str, match: re.Match[str]) -> Method:
    if match["adaptive"] or match["weights"] or match["rule"]:
        raise UsageError(f"--methods: {word!r}: a head has one view: give {kind} or tree:{kind}")
    return Method(word.lower(), kind, tree=_tree(word, match["tree"]))


def _name(word: str, start: int) -> str:
    """The method's name in rows: letters of views in upper case, the rest in lower case."""
    letters, slash, rule = word[start:].partition("/")
    return f"{word[:start].lower()}{letters.upper()}{slash}{rule.lower()}"


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


def _weights(word: str, text: str, count: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(number) for number in text.split(",")) if text else ()
    except ValueError as error:
        raise UsageError(f"--methods: {word!r}: give weights as numbers, such as 2,1") from error
    if weights and len(weights) != count:
        raise UsageError(f"--methods: {word!r}: {len(weights)} weights for {count} letters")
    return weights
