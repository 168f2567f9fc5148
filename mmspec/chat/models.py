"""Models loaded together on one backend, and what their conversations share."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from time import perf_counter, process_time
from typing import Any

from mmspec.chat.calibration import calibration_file, finding_file, read_calibration
from mmspec.chat.captions import Captioner, FileCaptioner, ModelCaptioner
from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.chat.memory import Memory
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.checkpoints.block_config import BLOCK_KINDS
from mmspec.decoding.contract import Backend
from mmspec.decoding.exact_rows import ExactRows, exact_fields
from mmspec.decoding.stored_states import capacity
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_estimates import a_tree_pays
from mmspec.draft_length.calibration_file import TREE_NODES, Calibration
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength
from mmspec.drafters.lookup import KnownText
from mmspec.drafters.surer import DraftLength, SurerDraftLength
from mmspec.drafters.views import LOOKUP, PLAIN, TEXT, Drafting
from mmspec.exactness.finding import exact_rows
from mmspec.ground.errors import UsageError
from mmspec.ground.latest_values import LatestValues
from mmspec.ground.progress import Progress, silent
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.chunks import Chunk
from mmspec.prompt.images import Picture

MAX_CAPTIONS = 4096
"""The most images whose captions stay in memory, of about a kilobyte each."""

LOOKUP_NODES = 16
"""The most nodes of lookup's trees of which `--gamma auto` verifies those that pay."""


@dataclass(slots=True, eq=False)
class Models:
    """A target and, optionally, a draft model or head, and a captioner."""

    backend: Backend
    target: LoadedModel
    draft: LoadedModel | None = None
    captioner: Captioner | None = None
    head: LoadedHead | None = None
    """The head that drafts in place of a draft model, if one is loaded."""
    draftless: str = PLAIN.spec
    """The default drafting without a draft: 'lookup' if 'auto' found no draft, else 'none'."""
    draft_text: KnownText | None = None
    """The text of `draft_text` files, in which lookup finds places too."""
    memory: Memory | None = None
    """Earlier turns, in which lookup finds places too, and to which it adds its own."""
    notes: list[str] = field(default_factory=list)
    """One line for each choice made by 'auto'."""
    load_seconds: float = 0.0
    calibrations: dict[ExactRows | None, Calibration] = field(default_factory=dict)
    """The costs of rounds by the target's exact rows; one that is missing is read when used."""
    exactness: dict[str, ExactRows | None] = field(default_factory=dict)
    """The exact rows by mode of `--exact`; a mode that is missing is found out when it is used."""
    progress: Progress = silent
    """Shows what is measured when it is used."""
    _lengths: dict[tuple[object, ...], DraftLength] = field(default_factory=dict, init=False)
    _captions: LatestValues[Sequence[int]] = field(
        default_factory=lambda: LatestValues(MAX_CAPTIONS), init=False
    )

    @property
    def texts(self) -> list[KnownText]:
        """The texts beside a conversation in which lookup finds places."""
        memory = self.memory and self.memory.text
        return [text for text in (self.draft_text, memory) if text]

    @property
    def drafts(self) -> LoadedModel | LoadedHead | None:
        """The draft model or the head; None if neither is loaded."""
        return self.draft or self.head

    def cache_bytes(self, columns: int, drafter: OpenDrafter | None) -> int:
        """Bytes of a conversation's caches: of the target's columns, and of what drafts."""
        columns, model = capacity(columns), self.target.model
        size = self.target.cache_bytes(columns)
        if drafter is None or drafter.drafting == LOOKUP:
            return size
        if self.draft:
            branches, columns = drafter.drafting.branches, capacity(drafter.drafter.length)
            size += len(branches) * self.draft.cache_bytes(columns)
        elif self.head:  # what it reads of each column; its own cache is of few layers
            rows = columns * (2 + len(self.head.head.config.captured_layers(model.config)))
            size += rows * model.config.text.hidden_size * self.target.item_bytes
        return size

    def work_seconds(self) -> float:
        """A clock for the costs of rounds; `setup_seconds` of a shape are spent once, on no round.

        Where the target computes on a CPU, the time of other programs does not count either.
        """
        if self.target.model.device == "cpu":
            return process_time()
        return perf_counter() - sum(model.model.setup_seconds for model in self._models)

    @property
    def recurrent(self) -> str | None:
        """Name of the target or draft model with recurrent layers, which follow chains alone."""
        names = (model.name for model in self._models if model.model.config.text.delta_net)
        return next(names, None)

    @property
    def _models(self) -> list[LoadedModel]:
        return [self.target, self.draft] if self.draft else [self.target]

    def caption(self, picture: Picture) -> Sequence[int]:
        """Token ids, without BOS, that replace the image in view C; computed once per image."""
        if self.captioner is None:
            raise UsageError("drafting C needs a captioner: load with a `draft` or a `captioner`")
        captioner, encode = self.captioner, self.target.tokenizer.encode
        return self._captions.get(
            picture.digest, lambda: encode(f"image: {captioner.caption(picture)}")
        )

    def positions(self, chunks: Sequence[Chunk]) -> int:
        """The number of positions that a rendered conversation takes in the target's context."""
        return self.target.views(self.caption).length(chunks, self.target.view)

    def prepare(self, options: Options) -> None:
        """Find the exact rows and read the calibration for options; may probe, as `exact_rows`."""
        self.calibration(self.exact_rows(options.exact))

    def exact_rows(self, mode: str, *, measure: bool = False) -> ExactRows | None:
        """The rows with which the target decodes in a mode of `--exact`; None: ordinary forwards.

        'on' may probe for seconds to minutes, once for a model on a machine, and shows this by
        `progress`; 'auto' does so if `measure` is set. Raises UsageError if the mode is 'on' and no
        number of rows is exact.
        """
        if measure or mode not in self.exactness:
            model, name = self.target.model, self.target.name
            file = finding_file(self.backend, self.target)
            rows = exact_rows(model, mode, file, name, self.progress, measure=measure)
            self.exactness[mode] = rows
        return self.exactness[mode]

    def exact_fields(self, mode: str) -> dict[str, Any]:
        """Whether the target decodes exactly in a mode of `--exact`, as JSON reports say it."""
        return exact_fields(mode, self.exact_rows(mode))

    def calibration(self, exact: ExactRows | None) -> Calibration:
        """The calibrated costs of these models with these rows, or none; notes an unusable file."""
        if exact not in self.calibrations:
            file = calibration_file(self.backend, self.target, self.drafts, exact)
            self.calibrations[exact], note = read_calibration(file)
            if note:
                self.notes.append(note)
        return self.calibrations[exact]

    def tree_of(self, options: Options, drafting: Drafting) -> Tree | None:
        """The tree with which a drafter is opened; None drafts chains."""
        if options.tree != "auto":
            return options.tree
        if options.gamma != "auto" or options.adaptive or self.recurrent:
            return None
        if drafting == LOOKUP:
            return Tree().within(LOOKUP_NODES, 1)
        calibration = self.calibration(self.exact_rows(options.exact))
        costs = partial(self._calibrated_costs, calibration, drafting, 0)
        trees = {nodes: seconds for nodes in TREE_NODES if (seconds := costs(nodes))}
        return Tree() if trees and a_tree_pays(costs(), trees) else None

    def draft_length(self, options: Options, drafting: Drafting | None) -> DraftLength:
        """The draft length of a way to draft, which all conversations share.

        drafting: None if nothing drafts. An adaptive length starts from the costs that were
        calibrated with the target's exact rows. With those of trees it also chooses between chains
        and dynamic trees of up to the tree's nodes; `mmspec calibrate` measures no static trees.
        """
        if drafting is None:
            return FixedDraftLength(0)
        exact = self.exact_rows(options.exact) if options.gamma == "auto" else None
        tree = self.tree_of(options, drafting)
        key = drafting, tree, options.gamma, exact, options.adaptive, options.overflow
        if key not in self._lengths:
            length = self._new_length(options, replace(drafting, with_lookup=False))
            lookup = self._new_length(options, LOOKUP) if drafting.with_lookup else None
            self._lengths[key] = SurerDraftLength(lookup, length) if lookup else length
        return self._lengths[key]

    def remember(self, chunks: Sequence[Chunk], answer: Sequence[int]) -> None:
        """Add the last question of a prompt, and its answer, to the memory, if there is one."""
        if self.memory:
            views = self.target.views(self.caption)
            question = [*takewhile(lambda chunk: not chunk.is_answer, reversed(chunks))]
            segments = (views.segment(chunk, TEXT) for chunk in reversed(question))
            tokens = (token for segment in segments for token in segment.token_ids(NO_TOKEN))
            self.memory.add([*tokens, *answer])

    def _new_length(
        self, options: Options, drafting: Drafting
    ) -> FixedDraftLength | AdaptiveDraftLength:
        if options.gamma != "auto":
            return FixedDraftLength(options.gamma)
        tree = self.tree_of(options, drafting)
        calibration = self.calibration(self.exact_rows(options.exact))
        costs = partial(self._calibrated_costs, calibration, drafting)
        if drafting == LOOKUP:
            rows = calibration.row_costs if calibration.target else None
            return AdaptiveDraftLength(rows, nodes=LOOKUP_NODES)
        if tree is None:
            is_block = bool(self.head and self.head.kind in BLOCK_KINDS)
            return AdaptiveDraftLength(costs if costs(0) else None, drafts_blocks=is_block)
        sizes = [nodes for nodes in TREE_NODES if nodes <= tree.nodes and costs(0, nodes=nodes)]
        if tree.branching or not (sizes and costs(0)):
            return AdaptiveDraftLength()
        return AdaptiveDraftLength(costs, {nodes: partial(costs, nodes=nodes) for nodes in sizes})

    def _calibrated_costs(
        self, calibration: Calibration, drafting: Drafting, context: int, nodes: int | None = None
    ) -> dict[int, float]:
        """Calibrated seconds of a round by draft length.  nodes: a tree's; None for a chain."""
        branches = len(drafting.branches)
        if nodes:
            costs = calibration.tree_costs(nodes, branches, context)
        else:
            costs = calibration.round_costs(branches, context)
        slots = self.head.head.config.slots if self.head else 0
        return {gamma: cost for gamma, cost in costs.items() if not slots or gamma <= slots}

    def forget(self) -> None:
        """Drop vision features and captions, so that the next chat computes them again."""
        self._captions.clear()
        for model in self._models:
            if model.features:
                model.features.forget()
        captioner = self.captioner
        if isinstance(captioner, FileCaptioner):
            captioner = captioner.fallback
        if isinstance(captioner, ModelCaptioner):
            captioner.forget()
