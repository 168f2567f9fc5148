"""A target that sees: a Llama with a LLaVA's tower, trained by LLaVA's two stages.

Before them, in `words`, the projector learns to return the sum of the Llama's embeddings of the
words for each patch: images mean something from the beginning. `projector` trains the projector on
conversations, `language` the Llama too; the tower is frozen. The directory is an ordinary LLaVA at
any time; its folder `training` has the stages' states, from which longer budgets go on.

Shape letters: C classes of a label, N patches, H width of the Llama.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlavaForConditionalGeneration

import mmspec_world
from mmspec.chat.calibration import content_digest, shape_digest
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import resolve
from mmspec.decoding.contract import Float32
from mmspec.families.llava import LlavaVision
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import read_json
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_torch.device.devices import find_device
from mmspec_train.data.batch import Batch, ConversationRecord, collate, tokenize
from mmspec_train.data.corpus import SHARES, WorldCorpus, task_shares
from mmspec_train.data.stored import BATCHES_PER_POOL, TeacherCache
from mmspec_train.run.log import open_log
from mmspec_train.run.loop import Phase, run_phases
from mmspec_train.run.machine import Item, Machine, Source, prepare_process
from mmspec_train.run.run_manifest import NEW_OUT, claim, manifest_of
from mmspec_train.settings import Budget, TargetSettings, by_option
from mmspec_train.targets.join import save_weights, write_llava
from mmspec_world.drawing import LABEL_WORDS, PLACES
from mmspec_world.split import Split

STAGES = {"words": (0.05, 2e-3, 0.0), "projector": (0.15, 1e-3, 0.0), "language": (0.8, 5e-4, 2e-4)}
"""Share of the budget, and peak learning rates of projector and Llama; 0 freezes a part."""
TARGET_SHARES = {task: share for task, share in SHARES.items() if task != "told"}
"""Relative share of each task: the target knows language, and learns from pictures alone."""
CHECKPOINT_SECONDS = 300.0
WARM_UP = 20
TEXT_SHARE = 0.25
"""Share of answers to text in the last stage."""
PICTURES = 32
"""Number of pictures in a batch of the stage `words`."""
EMPTY_WEIGHT = 0.2
"""Loss weight of empty patches, which are the majority."""
Example = tuple[ConversationRecord, list[Float32]]
"""A conversation, and the pixel values [3, height, width] of its images."""


def train_target(settings: TargetSettings, budget: Budget) -> None:
    """Train a target into `settings.out`, going on where a run before ended.

    Raises UsageError, before writing, for parts that do not fit, and for a directory that holds
    another model or belongs to a run with other options.
    """
    language, tower = resolve(settings.language, "torch"), resolve(settings.tower, "torch")
    texts = _check(language, tower, settings.answers_dir)
    out, machine = settings.out, Machine(find_device(settings.device), CHECKPOINT_SECONDS)
    own = replace(settings, language=str(language), tower=str(tower))
    options = by_option(own, "language", "tower", "answers_dir", "task", "batch", "seed")
    claim(file := manifest_of(out), {n: str(value) for n, value in options.items()}, NEW_OUT)
    prepare_process(settings)
    if not (out / "processor_config.json").exists():  # the last file that is written
        write_llava(language, tower, settings.seed, out)
    target = Target(settings, texts)
    with open_log(out) as log:
        save = partial(save_weights, target.model, out)
        run_phases(list(map(target.phase, STAGES)), budget, machine, file.parent, log, finish=save)


def _check(language: Path, tower: Path, answers: Path | None) -> list[ConversationRecord]:
    """Return the Llama's answers.  Raises UsageError for other parts or answers, and for none."""
    config, vision = read_config(language), read_config(tower).vision
    if (kind := config.family.model_type) != "llama":
        raise UsageError(f"{language} is a {kind}: --language is a Llama of text alone")
    if not isinstance(vision, LlavaVision) or not vision.drops_class_token:
        raise UsageError(f"{tower} has no tower of patches alone: --tower is a LLaVA, such as mini")
    if answers is None:
        return []
    cache = TeacherCache(answers, "train", config.text.hidden_size)
    if not (records := cache.records()):
        raise UsageError(f"{answers} has no answers: make them by `mmspec train distill`")
    target, digest = read_json(cache.manifest_file).get("target"), content_digest(language)
    if not str(target).startswith(f"{shape_digest(language)} {digest} "):
        raise UsageError(f"{answers} has the answers of another model than {language}")
    return records


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Pictures, and what is in each cell of a grid over them: shape, colour and so on."""

    pixels: Tensor
    """[N, 3, height, width] pixel values."""
    labels: Tensor
    """[kinds, N, cells] a class index for each kind of label."""


def pools(
    make: Callable[[random.Random], Iterable[Item]], size: int, seed: int, split: Split, start: int
) -> Iterator[Item]:
    """Yield batches from number `start` on, made in pools of `size` from a pool's own numbers."""
    for pool in count(start // size):
        rng = random.Random(f"{seed}/{split}/{pool}")
        yield from islice(make(rng), max(0, start - pool * size), None)


def cut(examples: Sequence[Example], sizes: Sequence[int], pieces: int) -> list[Sequence[Example]]:
    """Cut a sequence into consecutive, non-empty pieces of about equally many tokens."""
    ends = np.cumsum(sizes)
    cuts = [0]
    for piece in range(1, pieces):
        end = int(ends.searchsorted(ends[-1] * piece / pieces))
        cuts.append(min(max(end, cuts[-1] + 1), len(examples) - pieces + piece))
    return [examples[a:b] for a, b in pairwise([*cuts, len(examples)])]


class Target:
    """A LLaVA in training, and what it learns from."""

    def __init__(self, settings: TargetSettings, texts: Sequence[ConversationRecord]) -> None:
        """Read the checkpoint in `settings.out`.  texts: answered by the Llama itself."""
        out = settings.out
        self.settings, self.texts = settings, texts
        self.model = LlavaForConditionalGeneration.from_pretrained(out, dtype=torch.float32)
        config = read_config(out)
        vision: Any = config.vision
        self.vision, self.images = vision, vision.preprocessing(out)
        self.tokenizer, self.template = Tokenizer.read(out), load_template(out)
        self.end = self.tokenizer.end(config.eos_token_ids)
        self.is_tied = config.text.tie_word_embeddings

    def phase(self, stage: str) -> Phase[Any]:
        """Return a stage of training."""
        share, projector, text = STAGES[stage]
        inner, output = self.model.model, (self.model.lm_head, 0.0 if self.is_tied else text)
        return Phase(
            stage,
            self.model,
            [(inner.multi_modal_projector, projector), (inner.language_model, text), output],
            self.word_loss if stage == "words" else self.answer_loss,
            [self.batches(stage, "train")],
            self.batches(stage, "held-out"),
            share,
            warm_up=WARM_UP,
            muon=False,
        )

    def batches(self, stage: str, split: Split) -> Source[Any]:
        """Return a stage's batches: pictures with their words, or conversations."""
        settings = self.settings
        if stage == "words":
            return partial(pools, partial(self.pictures, split), 1, settings.seed, split)
        shares = task_shares(settings.task) or TARGET_SHARES
        corpus = WorldCorpus(shares, self.vision.image_size, split, settings.seed)
        mixes = stage == "language" and split == "train" and self.texts
        make = partial(self.conversations, corpus, TEXT_SHARE if mixes else 0.0)
        return partial(pools, make, BATCHES_PER_POOL, settings.seed, split)

    def pictures(self, split: Split, rng: random.Random) -> Iterator[LabelledBatch]:
        """Yield a batch of pictures of the world with labels for each patch."""
        sizes = {"size": self.vision.image_size, "grid": self.vision.side}
        pictures = [
            mmspec_world.labelled_picture(rng.getrandbits(48), split=split, **sizes)
            for _ in range(PICTURES)
        ]
        pixels = np.stack([self.images.pixels(image) for image, _ in pictures])
        kinds = [[cells[name].ravel() for _, cells in pictures] for name in mmspec_world.LABELS]
        yield LabelledBatch(torch.from_numpy(pixels), torch.from_numpy(np.array(kinds)))

    def conversations(
        self, corpus: WorldCorpus, text_share: float, rng: random.Random
    ) -> Iterator[Batch]:
        """Yield a pool of batches, each of similar lengths, shuffled."""

        def columns(example: Example) -> int:
            return example[0].length(self.vision)

        examples: list[Example] = []
        missing = BATCHES_PER_POOL * self.settings.batch
        while missing > 0 or len(examples) < BATCHES_PER_POOL:
            examples.append(self.draw(corpus, text_share, rng))
            missing -= columns(examples[-1])
        examples.sort(key=columns)
        batches = cut(examples, list(map(columns, examples)), BATCHES_PER_POOL)
        rng.shuffle(batches)
        for batch in batches:
            records = [record for record, _ in batch]
            pixels = [image for _, images in batch for image in images]
            yield collate(records, pixels, (), self.model.config.image_token_id, self.vision)

    def draw(self, corpus: WorldCorpus, text_share: float, rng: random.Random) -> Example:
        """Draw a conversation of the world, or of the texts, in the target's chat template."""
        if rng.random() < text_share:
            return rng.choice(self.texts), []
        number = rng.getrandbits(48)
        turns = corpus.turns(number)
        record = tokenize(number, turns, self.template, self.tokenizer, self.end)
        pictures = [picture.image for turn in turns for picture in turn.question.pictures]
        sides = tuple(self.images.size(*picture.size) for picture in pictures)
        return msgspec.structs.replace(record, sides=sides), list(map(self.images.pixels, pictures))

    def answer_loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the answers' tokens."""
        pixels = torch.from_numpy(np.stack(batch.pixels)) if batch.pixels else None
        states = self.model.model(
            input_ids=batch.ids,
            pixel_values=None if pixels is None else pixels.to(batch.ids.device),
            use_cache=False,
        ).last_hidden_state
        logits = self.model.lm_head(states[batch.has_loss]).float()
        return cross_entropy(logits, batch.targets[batch.has_loss])

    def word_loss(self, batch: LabelledBatch) -> Tensor:
        """Return the error of projected patches, relative to the sums of their words' embeddings.

        A patch of a thing has its labels' words and its place's, others have the background's.
        """
        tables = [self._embeddings(words) for words in LABEL_WORDS.values()]
        rows = [table[labels] for table, labels in zip(tables, batch.labels, strict=True)]
        third = np.arange(self.vision.side) * 3 // self.vision.side
        places = self._embeddings(PLACES)[(third[:, None] * 3 + third).ravel()]
        is_thing = (batch.labels[:-1] > 0).any(0).unsqueeze(-1)
        sums = torch.where(is_thing, torch.stack(rows[:-1]).sum(0) + places, rows[-1])
        inner = self.model.model
        features = inner.vision_tower(batch.pixels).last_hidden_state[:, 1:]
        errors = inner.multi_modal_projector(features) - sums
        weights = torch.where(is_thing, 1.0, EMPTY_WEIGHT)
        mean: Tensor = (errors.square().mean(-1, keepdim=True) * weights).sum() / weights.sum()
        return mean / sums.square().mean()

    def _embeddings(self, words: Sequence[str]) -> Tensor:
        """Return the mean input embedding of each word's tokens [C, H], zeros for no word."""
        table = self.model.model.language_model.embed_tokens.weight.detach()
        ids = [self.tokenizer.encode(f" {word}") if word else [] for word in words]
        return torch.stack([table[tokens].sum(0) / max(1, len(tokens)) for tokens in ids])
