"""The whole of what the core knows about a backend.

A backend turns a checkpoint directory into a `Model`; a model opens `Target`s and `Drafter`s,
each over one sequence.  Only token ids and short lists of numbers cross while decoding; pixels
go in once per image and come back as an opaque `Features` that stays on the device.

One round is four calls, and only the second waits for the device:

    draft = drafter.draft(k, weights, draws)    # enqueue up to k drafted tokens
    verdict = target.verify(draft, draws)       # the one device-to-host copy of the round
    target.commit(path, token)                  # keep the accepted nodes, then one more token
    drafter.commit(path, tokens)                # the same, told in tokens

`target.verify(None, draws)` is plain decoding: the same loop with nothing drafted.

Invariant: the last token of every sequence has been fed to no model yet.  Prefill leaves it so,
every commit restores it, and no first-token special case is needed.

Atomicity: a method that raises, KeyboardInterrupt included, leaves the sequence as it was.
Validity is host integers, moved last; whatever a cache holds beyond them is never read.

Shape letters: R branches (rows of one batched draft forward), k drafted tokens of a path, n of
all paths (a chain is one), V vocabulary, N visual positions of one image, D width of the vision
tower, H width of the language model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmspec.adaptive import Adaptation
from mmspec.config import ModelConfig
from mmspec.draft import Draft, Verdict
from mmspec.heads.config import HeadConfig
from mmspec.sampling import Sampling
from mmspec.tree import Tree

Float32 = NDArray[np.float32]


class Features(Protocol):
    """Vision features [N, D] of one image on the device, before any projector."""

    @property
    def positions(self) -> int:
        """N, a square."""
        ...

    def pooled(self, positions: int) -> "Features":
        """Average-pool the square grid to `positions`, a square whose side divides the grid's.

        The pooled features are computed once and kept (IbED, section 3.2).
        """
        ...

    def numpy(self) -> Float32:
        """The features [N, D] on the host.  Blocks; for parity reports."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens to append to one sequence."""

    tokens: Sequence[int]
    """One image token id for every visual position, N in a row for an image."""
    features: Sequence[Features] = ()
    """The images whose positions stand in `tokens`, in order, each whole.

    Without any, an image token id is an ordinary token: a model may have said it.
    """


class Target(Protocol):
    """One sequence as the target sees it, with its cache."""

    @property
    def length(self) -> int:
        """Tokens in the sequence, the one not yet fed included."""
        ...

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed everything but its last token."""
        ...

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on (0 <= length <= self.length)."""
        ...

    def verify(self, draft: Draft | None, draws: Sequence[float]) -> Verdict:
        """Run the target once over its last token and the draft, and read the outcome.  Blocks.

        A node of a tree stands at its depth after the last token and sees its ancestors alone.
        draft: from a drafter of the same backend, or a `HostDraft`.
        draws: [n + 1] uniforms for the fallback tokens, unread (may be empty) when greedy.
        """
        ...

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the draft verified last, then `token`.

        path: any path from the root.  Where its nodes are not the first ones, their columns of
        the cache are moved together; the draft is void then, whatever happens.
        """
        ...

    def logits(self) -> Float32:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""
        ...


class Drafter(Protocol):
    """The same sequence as R draft branches see it: own prompts, shared generated tokens.

    Branches are rows of one batched forward.  Rows of a prompt differ in length and are padded
    to shared columns; `length` counts columns, so rewinding is one number for all rows.
    """

    @property
    def length(self) -> int:
        """Columns in the sequence, those not yet fed included."""
        ...

    @property
    def row_lengths(self) -> list[int]:
        """[R] tokens each branch sees, padding left out."""
        ...

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch, all ending in the same token, which is not fed."""
        ...

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on.  Only lengths seen before a call are given."""
        ...

    def draft(self, k: int, weights: Sequence[float], draws: Sequence[float]) -> Draft | None:
        """Enqueue k tokens (k >= 1) from the mixture of the branches.  Never blocks.

        A drafter opened with a tree grows one whose paths have at most k tokens.
        None where there is nothing to propose: the round is then plain.
        weights: [R], summing to one.  draws: [k] uniforms, unread (may be empty) where drafted
        tokens are the mixture's likeliest.  A draft that was never committed is void.

        A drafter that adapts takes these weights until it has observed a token.  Then it fits its
        own, on the device, among the branches whose weight here is not zero.
        """
        ...

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append what the target kept: `path` nodes of the last draft, ending `tokens`' others.

        tokens: all tokens appended this round, of which the first len(path) are the drafted
        ones.  `path` is empty after a round this drafter did not draft.  A drafter that adapts
        observes here what the target said of its draft: the target leaves that on the device when
        it verifies.
        """
        ...

    def forget(self) -> None:
        """Observe from nothing again; without effect on a drafter that does not adapt."""
        ...


class Model(Protocol):
    """A loaded checkpoint on a device: LLaVA, or a bare Llama (no images)."""

    @property
    def config(self) -> ModelConfig:
        """Sizes and special ids."""
        ...

    @property
    def tower(self) -> str:
        """Digest of the vision tower's tensors, dtype and feature layer; '' without a tower.

        Two models whose digests are equal may share features (pixels being equal too).
        """
        ...

    @property
    def device(self) -> str:
        """Where it runs, as the framework names it."""
        ...

    @property
    def dtype(self) -> str:
        """'float32', 'bfloat16' or 'float16': the type activations are computed in."""
        ...

    @property
    def quantize(self) -> str:
        """How float weights were quantized on loading, as it was asked for; 'none' where not."""
        ...

    def encode(self, pixels: Float32) -> Features:
        """Run the vision tower on preprocessed pixels [3, height, width]."""
        ...

    def project(self, features: Features) -> Float32:
        """The projector's output [N, H] on the host.  Blocks; for parity reports."""
        ...

    def open_target(self, sampling: Sampling, watch: bool = False) -> Target:
        """Start an empty sequence; with `watch` its verdicts tell how much it looks at images."""
        ...

    def open_drafter(
        self,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> Drafter:
        """Start an empty sequence of `branches` rows.

        vocabulary: V of the target; draft logits beyond the shared ids are cut, missing ones
        have probability zero.  sampling: how drafted tokens are drawn from the mixture; greedy
        makes every drafted token a point mass.  adaptation: how the weights of several branches
        follow the target; None leaves them as given.  tree: how drafts branch; None drafts
        chains.  The nodes of a tree are point masses whatever the sampling.
        """
        ...


class Head(Protocol):
    """A drafter that reads what a target has computed, and works with that target alone."""

    @property
    def config(self) -> HeadConfig:
        """Its kind and sizes."""
        ...

    def open_drafter(self, target: Target, sampling: Sampling, tree: Tree | None = None) -> Drafter:
        """Start an empty sequence of one branch beside `target`, of the model it was loaded for.

        The target is extended and rewound first, always; its segments are the drafter's too.
        sampling: how drafted tokens are drawn; greedy makes each of them a point mass.
        tree: how drafts branch; None drafts chains.
        """
        ...


class Backend(Protocol):
    """A place to run models."""

    name: str

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
    ) -> Model:
        """Load a checkpoint strictly.  Raises CheckpointError or UsageError.

        device: 'auto' or a framework's name.  dtype: 'auto' takes float32 on a CPU and the
        checkpoint's own type elsewhere.  quantize: what float weights become, where that is done.
        """
        ...

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a predictive head strictly, to draft for `model`, on its device and in its type.

        Raises CheckpointError for files that do not fit, UsageError for a head of another target.
        """
        ...

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Write an MLX-format quantized copy.  Raises BackendError where it cannot."""
        ...

    def synchronize(self) -> None:
        """Block until everything enqueued so far is done, so that stages can be timed."""
        ...

    def peak_memory(self) -> int:
        """Peak bytes since `reset_peak_memory`; process peak where the device has no counter."""
        ...

    def reset_peak_memory(self) -> None:
        """Start a new peak, where the device has a counter."""
        ...

    def copier(self, size: int, device: str) -> Callable[[], object]:
        """What enqueues a copy of `size` bytes from one place on `device` to another, once a call.

        How fast it is bounds every forward that reads its weights once.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Versions, devices and threads, for reports.  JSON-serializable."""
        ...
