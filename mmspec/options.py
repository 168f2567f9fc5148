"""How to draft and how to draw: the choices a person makes for one conversation."""

from dataclasses import dataclass
from typing import Literal

from mmspec.adaptive import Adaptation
from mmspec.drafting import OVERFLOWS, PLAIN, UNLETTERED, normalised, read_letters
from mmspec.errors import UsageError, choice
from mmspec.estimates import LONGEST
from mmspec.registry import is_kind
from mmspec.sampling import GREEDY, Sampling
from mmspec.tree import Tree

Gamma = int | Literal["auto"]
"""Tokens drafted a round; 'auto' chooses them by measured costs and the running acceptance."""

LONGEST_GIVEN = 64
"""The longest draft that can be asked for: half of what a view must have left to be worth starting,
and far beyond any length that pays."""

PROPOSALS = ("auto", "draw", "argmax")


@dataclass(frozen=True, slots=True)
class Options:
    """Drafting and sampling options; raises UsageError naming the one that is out of range."""

    drafting: str | None = None
    """Letters of M, T, C, P, a head's kind, 'ngram' or 'none'; None chooses a head's kind, MT with
    images and T without, and n-grams where a draft was looked for in vain."""
    weights: tuple[float, ...] = ()
    """One per letter; what an adaptive ensemble starts from."""
    adaptive: Adaptation | None = None
    """How the weights follow the target; None keeps them."""
    pool: int | None = None
    overflow: str = "pool"
    gamma: Gamma = 5
    sampling: Sampling = GREEDY
    seed: int = 0
    max_new_tokens: int = 512
    tree: Tree | None = None
    """How drafts branch, gamma being their depth; None drafts chains."""
    proposal: str = "auto"
    """Whether drafted tokens are drawn from the mixture or are its argmax; auto draws when the
    target samples."""
    skip_vision: float | None = None
    """The share of the target's attention to images, 0 to 1, from which the next round drafts
    nothing; None drafts always.  Without effect on text alone."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        lettered = self.drafting not in (None, *UNLETTERED) and not self.names_head
        views = read_letters(str(self.drafting)) if lettered else []
        if self.overflow not in OVERFLOWS:
            raise choice("overflow rule", self.overflow, OVERFLOWS)
        if self.proposal not in PROPOSALS:
            raise choice("proposal", self.proposal, PROPOSALS)
        if isinstance(self.gamma, int):
            allowed = 1 <= self.gamma <= LONGEST_GIVEN
        else:
            allowed = self.gamma == "auto"
        if not allowed:
            numbers = f"a number from 1 to {LONGEST_GIVEN}"
            raise UsageError(f"--gamma {self.gamma}: give {numbers}, or auto")
        _at_least("--max-new-tokens", self.max_new_tokens, 1)
        _at_least("--temperature", self.sampling.temperature, 0)
        _at_least("--top-k", self.sampling.top_k, 0)
        if not 0 < self.sampling.top_p <= 1:
            raise UsageError(f"--top-p {self.sampling.top_p}: give a number above 0 and at most 1")
        if self.skip_vision is not None and not 0 <= self.skip_vision <= 1:
            raise UsageError(f"--skip-vision {self.skip_vision}: give a number from 0 to 1")
        self._check_mixture(len(views))
        if self.pool is not None and "P" not in views and self.drafting != PLAIN.word:
            raise UsageError(
                f"--pool {self.pool} is the size of view P: give --drafting with a P, such as MTP, "
                "or leave it out"
            )
        if self.tree:
            self._check_tree(self.tree)

    def _check_mixture(self, views: int) -> None:
        if self.weights and not views and self.drafting != PLAIN.word:
            raise UsageError("--weights needs --drafting with letters, one weight for each")
        if views:
            normalised(self.weights, views)
        if self.adaptive and views < 2 and self.drafting not in (None, PLAIN.word):
            allowed = "give --drafting two or more letters, such as MTC"
            raise UsageError(f"--adaptive has nothing to weigh in {self.drafting!r}: {allowed}")

    def _check_tree(self, tree: Tree) -> None:
        if self.drafting == "ngram":
            raise UsageError(f"--tree {tree.word}: n-grams propose a chain; leave --tree out")
        if self.adaptive:
            raise UsageError(f"--tree {tree.word}: --adaptive fits weights to chains; take one")
        if self.proposal == "draw":
            raise UsageError(
                f"--tree {tree.word}: a tree's nodes are the likeliest tokens and never drawn; "
                "leave --proposal at auto"
            )

    @property
    def names_head(self) -> bool:
        """Whether the drafting is a head's kind."""
        return self.drafting is not None and is_kind(self.drafting)

    @property
    def needs_draft(self) -> str:
        """The option that cannot be had without a draft model, as it was given; '' without one."""
        if self.drafting not in (None, *UNLETTERED):
            return f"--drafting {self.drafting}"
        if self.drafting:
            return ""
        return f"--tree {self.tree.word}" if self.tree else "--adaptive" * bool(self.adaptive)

    def require_draft(self) -> None:
        """Raise UsageError for what cannot be had without a draft."""
        if self.needs_draft:
            raise UsageError(f"{self.needs_draft} needs a draft: name one with --draft")

    @property
    def longest_draft(self) -> int:
        """The most tokens that a round drafts."""
        return self.gamma if isinstance(self.gamma, int) else LONGEST

    @property
    def watches(self) -> bool:
        """Whether it matters how much the target looks at images."""
        return self.skip_vision is not None and self.drafting != PLAIN.word

    @property
    def draft_sampling(self) -> Sampling:
        """How drafted tokens are drawn; greedy where they are the mixture's argmax."""
        return GREEDY if self.proposal == "argmax" else self.sampling


def _at_least(name: str, value: float, least: float) -> None:
    if not least <= value < float("inf"):
        raise UsageError(f"{name} {value}: give a number of at least {least}")
