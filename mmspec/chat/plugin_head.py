"""Drafters of other packages: drafts are checked, and what their code raises names them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Drafter, Head, Segment, Target
from mmspec.decoding.draft import DeviceDraft, Draft, HostDraft, Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import MOST_NODES, Tree
from mmspec.drafters.views import AND_LOOKUP, LETTERS, WITHOUT_MODEL
from mmspec.ground.entry_points import is_of_mmspec, plugin_errors
from mmspec.ground.errors import DraftError, UsageError


class PluginHead:
    """Implements `Head` by another package's; errors name it by its kind."""

    def __init__(self, head: Head, config: HeadConfig, module: str) -> None:
        """module: one of the other package's, whose lines errors name."""
        self.config = config
        self._head, self._module = head, module

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> "PluginDrafter":
        """Open an empty sequence; raises UsageError for a drafter that lacks a member."""
        name = f"the drafter {self.config.kind}"
        with plugin_errors(name, self._module):
            drafter = self._head.open_drafter(target, sampling, tree)
        require_members(drafter, Drafter, name, "a mmspec.Drafter")
        return PluginDrafter(drafter, name, tree, self._module)


class PluginDrafter:
    """Implements `Drafter` by another package's, which errors call by `name`."""

    def __init__(self, drafter: Drafter, name: str, tree: Tree | None, module: str) -> None:
        """tree: the shape with which it was opened.  module: one of the other package's."""
        self._drafter = drafter
        self._most = tree.nodes if tree else MOST_NODES
        self._blame = plugin_errors(name, module)
        self._columns = self._blame(lambda: drafter.length)()
        """Columns that the calls so far have made."""

    @property
    def length(self) -> int:
        """Number of columns in the sequence; raises DraftError if the drafter counts others."""
        length = self._blame(lambda: self._drafter.length)()
        if length != self._columns:
            raise DraftError(f"its length is {length!r} after {self._columns} columns: count all")
        return self._columns

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per view."""
        self._blame(self._drafter.extend)(segments)
        self._columns += max(map(len, segments))

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on."""
        self._blame(self._drafter.rewind)(length)
        self._columns = length

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:
        """Append `tokens`."""
        self._blame(self._drafter.commit)(path, tokens, verdict)
        self._columns += len(tokens)

    def draft(self, plan: Plan, noise: Noise) -> Draft | None:
        """The draft; raises DraftError for anything else, and for more than the plan allows."""
        draft = self._blame(self._drafter.draft)(plan, noise)
        if draft is None:
            return None
        if not isinstance(draft, HostDraft | DeviceDraft):
            raise DraftError(
                f"it drafted a {type(draft).__name__}: return HostDraft(tokens), the backend's own "
                "draft, or None"
            )
        depth = draft.size if draft.parents is None else draft.depth
        if depth > plan.gamma:  # the answer would be longer than its limit
            raise DraftError(
                f"it drafted {depth} tokens on a path, and the plan allows {plan.gamma}: draft "
                "`plan.gamma` at most"
            )
        most = max(plan.gamma, plan.nodes or self._most)
        if draft.size > most:
            raise DraftError(
                f"it drafted a tree of {draft.size} nodes, and the plan allows {most}: draft "
                "`tree.within(plan.nodes, plan.gamma)`"
            )
        return draft


@contextmanager
def draft_errors(spec: str) -> Iterator[None]:
    """Context in which a DraftError, wherever the fault is found, names the drafting `spec`."""
    try:
        yield
    except DraftError as error:
        drafter = f"the drafter {spec.removesuffix(AND_LOOKUP)}"
        raise DraftError(f"{drafter}: {error}").with_traceback(error.__traceback__) from error


def plugin_head(head: Head, name: str, remedy: str, module: str = "") -> Head:
    """A head of another package; UsageError for other objects.  One of mmspec's own stays itself.

    remedy: what to give, in errors.  module: one of the package's; that of the head's class by
    default.
    """
    require_members(head, Head, name, remedy)
    module = module or type(head).__module__
    if is_of_mmspec(module):
        return head
    with plugin_errors(name, module):
        config = head.config
    if not isinstance(config, HeadConfig):
        got = type(config).__name__
        raise UsageError(f"the `config` of {name} is a {got}: give a mmspec.HeadConfig")
    kind: object = config.kind
    is_word = isinstance(kind, str) and "+" not in kind and kind not in WITHOUT_MODEL
    if not is_word or set(str(kind).upper()) <= LETTERS.keys():
        raise UsageError(
            f"the kind of {name} is {kind!r}: give a word that names no other drafting, as letters "
            f"of {''.join(LETTERS)} and {', '.join(WITHOUT_MODEL)} do, and has no +"
        )
    return PluginHead(head, config, module)


def require_members(value: object, protocol: type, name: str, remedy: str) -> None:
    """Raise UsageError for an object that lacks a member of a protocol."""
    members = {member for member in vars(protocol) if not member.startswith("_")}
    if names := ", ".join(sorted(members - {*dir(value)})):
        got = type(value).__name__
        raise UsageError(f"{name} is a {got} without {names}: give {remedy}")
