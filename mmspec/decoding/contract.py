"""The contract between the core and a backend.

A backend loads a checkpoint directory as a `Model`; a model opens `Target`s, and `Branches` with
which a draft model drafts. While decoding, only token ids cross this boundary; pixels go in once
per image and come back as opaque `Features`, which stay on the device as logits do.

One round is four calls. `verify` waits for the device, on MLX for each forward of exact rows, and
`draft` for the chances of a block:

    draft = drafter.draft(plan, noise)          # enqueue up to plan.gamma drafted tokens
    verdict = target.verify(draft, noise)       # the one device-to-host copy of the round
    target.commit(path, tokens[-1])             # keep the accepted nodes, add one token
    drafter.commit(path, tokens, verdict)       # the same; the verdict is there to learn from

A drafted token is accepted if and only if it is the target's own. Sampling is greedy decoding under
noise that both sides share, so this holds at every temperature.

`target.verify(None, noise)` is plain decoding: the same loop without a draft.

Invariant: the last token of every sequence has not been fed to any model. Prefill and every commit
leave it so, and the first token is no special case.

Atomicity: a method that raises, KeyboardInterrupt included, leaves the sequence unchanged. The
valid part of a cache is given by integers on the host, which are updated last; cache contents
beyond them are never read.

Shape letters: R branches (views of the prompt, each one row of a batched draft forward), n drafted
tokens of all paths (a chain has one path), V vocabulary, N visual positions of one image, D width
of the vision tower, H width of the language model, W numbers of all layers' keys and values at a
column.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.draft import DeviceDraft, Draft, Plan
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.framework import Framework
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.segment import Features as Features
from mmspec.decoding.segment import Segment as Segment
from mmspec.decoding.stored_states import HiddenStates as HiddenStates
from mmspec.decoding.tree import Tree
from mmspec.families.grid import Grid
from mmspec.ground.arrays import A
from mmspec.ground.progress import Progress, silent

Float32 = NDArray[np.float32]


class Verifier(Protocol):
    """The calls of a target in a round."""

    @property
    def length(self) -> int:
        """Number of tokens in the sequence, including the last one, which is not fed."""

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Run the target once over its last token and the draft, and read the result. Blocks.

        A node of a tree stands as many positions after the last token as its depth, and attends
        only to the sequence and its ancestors. draft: from a drafter of the same backend, or a
        `HostDraft`. noise: that of the positions from `length` on; greedy sampling does not read
        it.
        """

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the last verified draft, then `token`.

        path: any path from the root. If its nodes are not the draft's first ones, their cache
        columns are moved together; the draft is void afterwards, even if the move fails.
        """


class Target(Verifier, Protocol):
    """One sequence in the target, with its cache."""

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed everything but its last token."""

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on (0 <= length <= self.length)."""

    def logits(self) -> Float32:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""

    def fed_rows(self, draft: Draft | None) -> tuple[Float32, Float32, Float32]:
        """The results of feeding the last token and a draft, on the host.  Blocks; changes nothing.

        Returns the hidden states [n + 1, H], the logits [n + 1, V], and the keys and values
        [n + 1, W] of all layers, whose bits the probe of exact decoding compares.
        """

    def hidden_states(self, layers: Sequence[int] = ()) -> HiddenStates[Any]:
        """Keep hidden states from now on, and return access to them.

        The target reads the sequence so far once more.

        layers: numbers of layers, ascending, after which states are kept too; 0 is the embedding.
        """


class Drafter(Protocol):
    """A sequence beside the target's, from which tokens are drafted."""

    @property
    def length(self) -> int:
        """Number of columns in the sequence, including those not yet fed."""

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per view; all end in the same token, which is not fed."""

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on; `self.length` must have had this value before."""

    def draft(self, plan: Plan, noise: Noise) -> Draft | None:
        """Enqueue a draft of at most plan.gamma >= 1 tokens on a path.

        Blocks only to read what `plan.pays` asks for. Returns None if there is nothing to propose,
        or no room for it; the round is then plain. A drafter that was opened with a tree drafts
        `tree.within(plan.nodes, plan.gamma)`, or a chain if that is None. noise: the noise that
        `verify` gets with this draft. A draft that is not committed is void.
        """

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:
        """Append `tokens`, of which the first len(path) are the nodes on `path` of the last draft.

        The cache columns of these nodes may be reused. `path` is empty after a round that this
        drafter did not draft. verdict: the target's on that draft, with its logits.
        """


class Branches(Protocol[A]):
    """R sequences of a draft model with prompts of their own and shared generated tokens.

    Branches are rows of one batched forward. Their prompts differ in length and are padded to
    shared columns; `length` counts columns, so one number rewinds all rows.
    """

    @property
    def framework(self) -> Framework[A]:
        """The array functions of the branches' device."""

    @property
    def length(self) -> int:
        """Number of columns in the sequences, including those not yet fed."""

    @property
    def row_lengths(self) -> list[int]:
        """[R] the number of tokens in each branch, without padding."""

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append one segment per branch; all end in the same token, which is not fed."""

    def rewind(self, length: int) -> None:
        """Forget all columns from `length` on; `self.length` must have had this value before."""

    def draft(self, plan: Plan, weights: A, noise: Noise) -> DeviceDraft[A]:
        """Enqueue a draft from the mixture, as `Drafter.draft`.  weights: [R], summing to one."""

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append `tokens`, as `Drafter.commit`."""


class Model(Protocol):
    """A loaded checkpoint on a device, of any family, with or without images."""

    @property
    def config(self) -> ModelConfig:
        """The model's sizes and special token ids."""

    @property
    def device(self) -> str:
        """The device, as the framework names it."""

    @property
    def dtype(self) -> str:
        """Type of activations: 'float32', 'bfloat16' or 'float16'."""

    @property
    def quantize(self) -> str:
        """Name of the scheme by which float weights were quantized on loading, or 'none'."""

    @property
    def setup_seconds(self) -> float:
        """Seconds so far spent once on shapes of rounds that recur, as for CUDA graphs."""

    @property
    def tower(self) -> str:
        """Digest of the vision tower's tensors, dtype and feature layer; '' without a tower.

        Two models with equal digests compute the same features from the same pixels.
        """

    def encode(self, pixels: Float32, grid: Grid | None = None) -> Features:
        """Run the vision tower on preprocessed pixels [3, height, width].

        A clip's moment has pixels [frames, 3, height, width].  grid: where the visual positions
        are, if not where those of an image of this size are.
        """

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> Target:
        """Open an empty sequence of the target.

        exact: feed the last token and a draft in forwards of these numbers of rows, with attention
        by blocks, so that a token gets the same bits alone, in a chain and in a tree.
        """

    def open_branches(
        self,
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None = None,
        *,
        probabilities: bool = False,
    ) -> Branches[Any]:
        """Open `count` empty sequences, the rows of one batch, to draft with this model.

        vocabulary: V of the target; the draft's logits beyond V are cut, and tokens that the draft
        lacks have probability zero. sampling: the target's. tree: the shape of drafts; None drafts
        chains. probabilities: whether drafts carry those of each branch, of two or more.
        """


class Head(Protocol):
    """A drafter that reads one target's hidden states and drafts for that target only."""

    @property
    def config(self) -> HeadConfig:
        """The head's kind and sizes."""

    def open_drafter(self, target: Target, sampling: Sampling, tree: Tree | None = None) -> Drafter:
        """Open an empty sequence beside `target`, a sequence of the model the head was loaded for.

        The caller extends and rewinds the target first, and passes the same segments to both.
        sampling: the target's.  tree: the shape of drafts; None drafts chains.
        """


class Backend(Protocol):
    """A framework that loads and runs models."""

    name: str

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
        progress: Progress = silent,
    ) -> Model:
        """Load a checkpoint; raises CheckpointError or UsageError unless every tensor matches.

        device: 'auto' or the framework's name of a device. dtype: 'auto' is float32 on a CPU and
        the checkpoint's own type elsewhere. quantize: scheme for float weights, if the backend
        supports any. progress: shows how much of a large checkpoint is read.
        """

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a predictive head that drafts for `model`, on its device and in its dtype.

        Raises CheckpointError if files are missing or tensors do not match the head's config, and
        UsageError if the head was trained for another target.
        """

    def synchronize(self) -> None:
        """Block until all enqueued work is done, so that the parts of an answer can be timed."""

    def peak_memory(self) -> int:
        """Peak bytes since `reset_peak_memory`; of the process if the device has no counter."""

    def reset_peak_memory(self) -> None:
        """Reset the device's peak counter, if it has one."""

    def set_threads(self, count: int | None) -> None:
        """Compute with this many CPU threads in the whole process.

        None: the environment's number, else all cores but one. Raises UsageError for more threads
        than cores, BackendError if the framework alone chooses the number.
        """

    def describe(self) -> dict[str, Any]:
        """Versions, devices and threads, for reports; JSON-serializable."""
