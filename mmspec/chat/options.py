"""Options of a conversation: how to draft and how to sample."""

import sys
from dataclasses import dataclass
from types import UnionType
from typing import Literal

from mmspec.chat.plugins import is_kind
from mmspec.decoding.constraint import OpenConstraint
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.views import (
    AND_LOOKUP,
    LETTERS,
    OVERFLOWS,
    PLAIN,
    WITHOUT_MODEL,
    normalise_weights,
    read_letters,
)
from mmspec.exactness.finding import MODES
from mmspec.ground.errors import UsageError, choice
from mmspec.ground.settings import convert_numbers, is_whole, require_seed

Gamma = int | Literal["auto"]
"""Tokens drafted per round, or 'auto', which adapts to measured costs and acceptance."""

MAX_GAMMA = 64
"""Tokens: the largest draft length that can be set."""


@dataclass(frozen=True, slots=True)
class Options:
    """Drafting and sampling options; raises UsageError for a value out of range."""

    drafting: str | None = None
    """View letters from M, T, C, P, or a head's kind, perhaps with '+lookup'; 'lookup' or 'none'.

    None, or 'auto', is the default: with '+lookup' the head's kind or, for a draft model, M with
    one or two images (MT with images if `adaptive`), else T; lookup alone if no draft was found.
    """
    weights: tuple[float, ...] = ()
    """One weight per view, equal by default; adaptive weights start from these."""
    adaptive: bool = False
    """Whether the weights of several views are fitted to the target's output during an answer."""
    pool: int | None = None
    """Positions of a pooled image in view P; None takes the largest up to a quarter of the grid."""
    overflow: str = "auto"
    """What to do with a view that is longer than the draft's positions: 'pool', 'drop' or 'run'.

    'auto' is 'pool' with one or two images, else 'drop'.
    """
    gamma: Gamma = "auto"
    sampling: Sampling = GREEDY
    seed: int = 0
    max_new_tokens: int = 512
    stop_strings: tuple[str, ...] = ()
    """Texts before which an answer ends; decoding ends with the token that completes one."""
    repeat_limit: int = 0
    """The number of tokens after which an answer ends if they repeat one part; 0: never."""
    tree: Tree | Literal["auto"] | None = "auto"
    """The shape of drafts, whose depth is gamma; None drafts chains.

    'auto' drafts chains, and with gamma 'auto' also dynamic trees where calibrated costs favour
    them.
    """
    exact: str = "auto"
    """Whether the target's bits are the same for every drafting: 'auto', 'on' or 'off'.

    'auto' is 'on' where a probe shows that it works and a plain token costs at most 10 % more.
    """

    constraint: OpenConstraint | None = None
    """What answers may say; None: anything."""
    logprobs: int | None = None
    """Number of likeliest tokens to report beside each token's log-probability; None for neither.

    `Round.likelihoods` holds them, before temperature, top-k and top-p.
    """

    def __post_init__(self) -> None:
        numbers = "gamma", "pool", "seed", "max_new_tokens", "repeat_limit", "logprobs"
        convert_numbers(self, *numbers)
        self._check_kinds()
        if self.drafting == "auto":
            object.__setattr__(self, "drafting", None)
        has_letters = self.drafting not in (None, *WITHOUT_MODEL) and not self.names_head
        views = read_letters(self.model_drafting) if has_letters else []
        if self.overflow not in OVERFLOWS:
            raise choice("overflow rule", self.overflow, OVERFLOWS)
        if self.exact not in MODES:
            raise choice("exact mode", self.exact, MODES)
        self._check_numbers()
        if self.weights and not views and self.drafting != PLAIN.spec:
            raise UsageError("`weights` needs `drafting` with letters, one weight for each")
        if views:
            normalise_weights(self.weights, len(views))
        if self.adaptive and len(views) < 2 and self.drafting not in (None, PLAIN.spec):
            remedy = "give `drafting` two or more letters, such as MTC"
            raise UsageError(f"`adaptive` has nothing to weigh in {self.drafting!r}: {remedy}")
        if self.pool is not None and "P" not in views and self.drafting != PLAIN.spec:
            raise UsageError(
                f"`pool={self.pool}` is the size of view P: give `drafting` with a P, such as MTP, "
                "or leave it out"
            )

    def _check_kinds(self) -> None:
        _require("drafting", self.drafting, str | None, "letters such as MTC, a kind or None")
        _require("adaptive", self.adaptive, bool, "True or False")
        _require("pool", self.pool, int | None, "a whole number or None")
        _require("sampling", self.sampling, Sampling, "a Sampling, such as Sampling(0.7)")
        require_seed("seed", self.seed)
        _require("stop_strings", self.stop_strings, tuple, "a tuple of texts")
        for text in self.stop_strings:
            _require("stop_strings", text or None, str, "texts that are not empty")
        _require("weights", self.weights, tuple | list, "a tuple of numbers")
        if not (self.constraint is None or callable(self.constraint)):
            raise UsageError(f"`constraint={self.constraint!r}`: give a function or None")
        if self.tree != "auto":
            _require("tree", self.tree, Tree | None, "a Tree, such as Tree(), None or 'auto'")

    def _check_numbers(self) -> None:
        if self.gamma != "auto" and not (is_whole(self.gamma, 1) and self.gamma <= MAX_GAMMA):
            raise UsageError(
                f"`gamma={self.gamma!r}`: give a whole number from 1 to {MAX_GAMMA}, or auto"
            )
        _at_least("max_new_tokens", self.max_new_tokens, 1)
        _at_least("repeat_limit", self.repeat_limit, 0)
        _at_least("logprobs", self.logprobs or 0, 0)
        _at_least("top_k", self.sampling.top_k, 0)
        temperature, top_p = self.sampling.temperature, self.sampling.top_p
        if not _lies_within(temperature, 0, sys.float_info.max):
            raise UsageError(f"`temperature={temperature!r}`: give a finite number of at least 0")
        if not _lies_within(top_p, 1e-9, 1):
            raise UsageError(f"`top_p={top_p!r}`: give a number above 0 and at most 1")

    @property
    def model_drafting(self) -> str:
        """`drafting` without a final `+lookup`; empty if none was named."""
        return (self.drafting or "").removesuffix(AND_LOOKUP)

    @property
    def names_head(self) -> bool:
        """True if `drafting` is a word, not letters: a head's kind, perhaps of an object."""
        return not set(self.model_drafting.upper()) <= LETTERS.keys()

    def require_drafting(self) -> None:
        """Raise UsageError for a drafting that is neither letters nor an installed head's kind."""
        if self.drafting not in (None, *WITHOUT_MODEL) and not is_kind(self.model_drafting):
            read_letters(self.model_drafting)

    def require_draft(self, default: str) -> None:
        """Raise UsageError for an option that needs a draft.  default: the drafting without one."""
        self.require_drafting()
        if self.drafting:
            option = "" if self.drafting in WITHOUT_MODEL else f"`drafting={self.drafting}`"
        else:
            tree = isinstance(self.tree, Tree) and default == PLAIN.spec and self.tree
            option = f"`tree={tree.spec}`" if tree else "`adaptive`" * bool(self.adaptive)
        if option:
            raise UsageError(f"{option} needs a draft: name one with `draft`")


def require_options(options: object) -> None:
    """Raise UsageError for anything but `Options`, such as a dict."""
    _require("options", options, Options, "an Options, such as Options(gamma=4)")


def _require(name: str, value: object, kind: type | UnionType, remedy: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"`{name}={value!r}`: give {remedy}")


def _at_least(name: str, value: object, least: int) -> None:
    if not is_whole(value, least):
        raise UsageError(f"`{name}={value!r}`: give a whole number of at least {least}")


def _lies_within(value: object, least: float, most: float) -> bool:
    """True for a number from `least` to `most`, and not for a text that holds one."""
    return isinstance(value, int | float) and least <= value <= most
