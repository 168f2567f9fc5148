"""The methods of a run, as they are written after --methods, and the options they stand for.

METHOD  = none | ngram | PROBE | [viskip:]DRAFTED
DRAFTED = [adaptive:|tree[SHAPE]:]LETTERS[:WEIGHTS][/RULE] | [tree[SHAPE]:]KIND
SHAPE   = nodes of a dynamic tree, perhaps with its width (20, 30w5; default 60w10), or the
          children of each level of a static one (3x2x1)
LETTERS = one or more of M, T, C, P; P may be followed by its positions, as in P36
KIND    = that of the head given as a draft, such as msd
WEIGHTS = one number per letter, as in MTC:2,1,1
RULE    = pool | drop | run: what to do with a branch longer than the draft's positions
PROBE   = none:blank | draft | draft:blank: what target and draft know, without speed
"""

import re
from dataclasses import dataclass, replace

from mmspec.adaptive import Adaptation
from mmspec.bench.suite.rows import PLAIN
from mmspec.drafting import OVERFLOWS, read_letters
from mmspec.errors import UsageError, choice
from mmspec.options import Options
from mmspec.registry import is_kind
from mmspec.tree import NODES, WIDTH, Tree
from mmspec.viskip import THRESHOLD

NGRAM = "ngram"
DRAFT = "draft"
BLANK = ":blank"
ADAPTIVE = "adaptive:"
PROBES = (PLAIN + BLANK, DRAFT, DRAFT + BLANK)
"""Plain decoding with grey in place of every image, and the draft asked alone, both ways."""

_FORM = re.compile(
    r"(?P<viskip>viskip:)?(?:(?:(?P<adaptive>adaptive)|(?P<tree>tree[^:]*)):)?"
    r"(?P<letters>[A-Z][\w-]*)(?::(?P<weights>[\d.,]+))?"
    r"(?:/(?P<rule>\w+))?",
    re.IGNORECASE | re.ASCII,
)
_LETTERS = re.compile(r"(?:P\d+|[A-Z])+", re.IGNORECASE | re.ASCII)
_SHAPE = re.compile(
    r"tree(?:(?P<branching>\d+(?:x\d+)+)|(?P<nodes>\d+)?(?:w(?P<width>\d+))?)",
    re.IGNORECASE | re.ASCII,
)
_NUMBER = re.compile(r"[\d.]+(?:/\w+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Method:
    """One way of answering, under the name that its rows carry."""

    name: str
    letters: str = ""
    """Of the views of a draft model; the kind of a head."""
    viskip: bool = False
    adaptive: bool = False
    tree: Tree | None = None
    pool: int | None = None
    weights: tuple[float, ...] = ()
    overflow: str = OVERFLOWS[0]

    @property
    def probe(self) -> bool:
        """Whether it asks what a model knows; its text need not be the target's."""
        return self.name in PROBES

    @property
    def blank(self) -> bool:
        """Whether images are shown as grey."""
        return self.name.endswith(BLANK)

    @property
    def of_draft(self) -> bool:
        """Whether the draft alone is asked."""
        return self.name.startswith(DRAFT)


def read_methods(text: str) -> list[Method]:
    """Read methods separated by commas; numbers are the weights of the method before them.

    Raises UsageError for a word that is no method, or one that is given twice.
    """
    words: list[str] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
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
    """Read one method; raises UsageError for a word that is none."""
    if word.lower() in (PLAIN, NGRAM, *PROBES):
        return Method(word.lower())
    match = _FORM.fullmatch(word)
    kind = match["letters"].lower() if match else ""
    if match and is_kind(kind):
        return _headed(word, kind, match)
    if not match or not _LETTERS.fullmatch(kind):
        raise UsageError(
            f"--methods: {word!r} is no method: use letters of M, T, C, P (such as MTC, P36, "
            "MT:2,1, M/run), adaptive:LETTERS, tree:LETTERS, viskip:LETTERS, a head's kind, "
            f"{', '.join((NGRAM, PLAIN, *PROBES))}"
        )
    letters = "".join(read_letters(re.sub(r"\d", "", match["letters"])))
    rule = (match["rule"] or OVERFLOWS[0]).lower()
    if rule not in OVERFLOWS:
        raise choice("overflow rule", rule, OVERFLOWS)
    pool = re.search(r"\d+", match["letters"])
    method = Method(
        _name(word, match.start("letters")),
        letters,
        viskip=match["viskip"] is not None,
        adaptive=match["adaptive"] is not None,
        tree=_tree(word, match["tree"]) if match["tree"] else None,
        pool=int(pool[0]) if pool else None,
        weights=_weights(word, match["weights"] or "", len(letters)),
        overflow=rule,
    )
    if method.adaptive and method.weights:
        raise UsageError(f"--methods: {word!r}: adaptive weights cannot be given")
    return method


def _headed(word: str, kind: str, match: re.Match[str]) -> Method:
    if match["adaptive"] or match["weights"] or match["rule"]:
        raise UsageError(f"--methods: {word!r}: a head has one view: give {kind} or tree:{kind}")
    return Method(
        word.lower(),
        kind,
        viskip=match["viskip"] is not None,
        tree=_tree(word, match["tree"]) if match["tree"] else None,
    )


def _name(word: str, start: int) -> str:
    """Letters in capitals, everything else in small ones: one name for one method."""
    letters, slash, rule = word[start:].partition("/")
    return f"{word[:start].lower()}{letters.upper()}{slash}{rule.lower()}"


def _tree(word: str, shape: str) -> Tree:
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


def method_options(method: Method, options: Options) -> Options:
    """The options that answer as `method` says."""
    return replace(
        options,
        drafting=method.letters or (NGRAM if method.name == NGRAM else PLAIN),
        weights=method.weights,
        adaptive=Adaptation() if method.adaptive else None,
        tree=method.tree,
        pool=method.pool,
        overflow=method.overflow,
        skip_vision=THRESHOLD if method.viskip else None,
    )
