"""The heads of `mmspec train distill`: new ones for a target, which learn from a teacher."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.checkpoints.block_config import BLOCK_KINDS, BlockDraft
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig
from mmspec.checkpoints.eagle3_config import Eagle3, default_layers
from mmspec.checkpoints.head_config import KINDS_WITH_LAYER, KINDS_WITH_SLOTS, HeadConfig
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.ground.errors import UsageError
from mmspec.ground.output_files import make_directory, replace_text
from mmspec_torch.device.devices import DTYPES
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_train.data.batch import Batch
from mmspec_train.data.teacher_data import TeacherData
from mmspec_train.distillation.objective import DraftStarts, all_starts, draw_starts
from mmspec_train.distillation.training import Trainee
from mmspec_train.heads.block import BlockModule
from mmspec_train.heads.eagle3 import Eagle3Module
from mmspec_train.heads.head import Head
from mmspec_train.heads.layered import LayeredModule
from mmspec_train.heads.slotted import SlottedModule
from mmspec_train.run.loop import Phase
from mmspec_train.settings import HeadMethodSettings, HeadShape, by_option

COMPRESSION = 9
"""Default number of visual positions per query of FLASH, as in its paper."""


def head_config(kind: str, target: ModelConfig, shape: HeadShape) -> HeadConfig:
    """Return the config of a new head for a target; kind: one of HEADS."""
    text = target.text
    is_block = kind in BLOCK_KINDS
    has_axes = kind == "eagle3" or (is_block and shape.rotary == "mrope")
    layer = replace(
        text,
        num_hidden_layers=shape.layers if is_block else 1,
        intermediate_size=shape.ffn or text.intermediate_size,
        tie_word_embeddings=False,
        qkv_bias=False,
        qk_norm=is_block,
        rotary_axes=text.rotary_axes if has_axes else (),
        rotary_scaling=None,
    )
    has_norms = shape.norms == "3.1"
    eagle3 = Eagle3(
        min(shape.draft_vocabulary or text.vocab_size, text.vocab_size),
        _captured_layers(text.num_hidden_layers),
        fc_norm=has_norms,
        norm_output=has_norms,
    )
    queries = target.image_tokens // COMPRESSION if shape.queries is None else shape.queries
    return HeadConfig(
        kind=kind,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        slots=shape.slots if is_block or kind in KINDS_WITH_SLOTS else 0,
        queries=queries if kind == "flash" else 0,
        vision=shape.vision if kind == "medusa" else "none",
        bias=kind != "eagle3" and not is_block,
        input_norm=is_block or kind in ("flash", "eagle3"),
        layer=layer if is_block or kind in KINDS_WITH_LAYER else None,
        dtype="float16",
        eagle3=eagle3 if kind == "eagle3" else None,
        block=_block(kind, target, shape) if is_block else None,
    )


def _block(kind: str, target: ModelConfig, shape: HeadShape) -> BlockDraft:
    """The options of a new block drafter, in the convention of the kind's authors."""
    text, image = target.text, target.image_id
    is_dspark = kind == "dspark"
    rank = shape.markov_rank if is_dspark else 0
    return BlockDraft(
        text.vocab_size,
        _captured_layers(text.num_hidden_layers),
        shape.slots + (not is_dspark),
        # The embedding of neither stands in a text: an image's is replaced by its features.
        text.vocab_size - 1 if image is None else image,
        is_dspark,
        image_context=shape.image_context,
        markov_rank=rank,
        enable_confidence_head=is_dspark,
        confidence_head_with_markov=rank > 0,
    )


def _captured_layers(total: int) -> tuple[int, ...]:
    """The layers that a new head reads of `total`; small targets lack the usual ones."""
    layers = default_layers(total)
    if 0 < layers[0] < layers[1] < layers[2]:
        return layers
    return tuple(range(max(0, total - 2), total + 1))


def new_head(config: HeadConfig, seed: int) -> Head:
    """Build a head with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    if config.layer is None:
        return SlottedModule(config)
    if config.block:
        return BlockModule(config, config.block, config.layer)
    if config.eagle3:
        return Eagle3Module(config, config.eagle3, config.layer)
    return LayeredModule(config, config.layer)


@dataclass
class HeadTrainee(Trainee):
    """A head that is trained from a teacher."""

    module: Head
    method: HeadMethodSettings

    def __post_init__(self) -> None:
        self.module.matrix = self.data.teacher.output_matrix

    @property
    def manifest(self) -> dict[str, Any]:
        """The head's config and the method."""
        return {"head": self.module.config.to_config(), **by_option(self.method)}

    def phases(self) -> Sequence[Phase[Batch]]:
        """The only phase: all of the head's modules."""
        records = self.data.batches("all").records()
        answers = chain.from_iterable(chain.from_iterable(r.answers for r in records))
        self.module.begin(self.data.teacher, answers)
        return [self.phase([(self.module, self.method.rate)], self.loss)]

    def save(self, directory: Path) -> None:
        """Write the head's checkpoint, in the dtype that its config names."""
        make_directory(directory)
        config = self.module.config
        dtype = DTYPES[config.dtype or "float32"]
        tensors = self.module.tensors.items()
        stored = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors}
        save_tensors(directory / WEIGHTS_FILE, stored)
        # The config comes last: without it the directory is no model.
        replace_text(directory / CONFIG_FILE, json.dumps(config.to_config(), indent=2) + "\n")

    def loss(self, conversations: Batch) -> Tensor:
        """Return the loss of a batch; noise needs gradients enabled."""
        head, method = self.module, self.method
        batch = self.data.teacher.read(conversations)
        depth = head.config.slots or method.rollout
        starts = draw_starts(all_starts(batch, depth), method.anchors)
        batch = inputs = starts.restrict(batch)
        if torch.is_grad_enabled() and method.noise:  # which no block drafter takes
            # EAGLE's uniform noise of width --noise · 512 / length.
            noise = torch.rand_like(batch.states) - 0.5
            lengths = torch.tensor(batch.lengths, device=noise.device).view(-1, 1, 1)
            states = batch.states + noise * (method.noise * 512 / lengths)
            inputs = replace(batch, states=states)
        return head.loss(head(inputs, starts), batch, starts, method)

    def guesses(self, conversations: Batch) -> tuple[Batch, DraftStarts, Tensor]:
        """Return the tokens of the head's chains from every start."""
        head, gamma = self.module, self.method.gamma
        batch = self.data.teacher.read(conversations)
        starts = all_starts(batch, min(gamma, head.config.slots or gamma))
        # Depth by depth: the logits of all would take as many times the memory.
        return batch, starts, torch.stack(list(map(head.likeliest, head(batch, starts))))


def new_trainee(
    kind: str, shape: HeadShape, method: HeadMethodSettings, data: TeacherData
) -> HeadTrainee:
    """Return a head with random weights that learns from the target of `data`."""
    config = head_config(kind, data.teacher.config, shape)
    data.teacher.captured_layers = config.captured_layers(data.teacher.config)
    if config.eagle3 and method.loss == "ce" and config.eagle3.draft_vocab_size < config.vocab_size:
        raise UsageError("--loss ce needs every token of the answers: leave out --draft-vocabulary")
    schedule = method.schedule or ("msd" if kind == "msd" else "mixed")
    head = new_head(config, data.settings.seed)
    return HeadTrainee(head, data, replace(method, schedule=schedule))
