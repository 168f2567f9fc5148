"""A target that sees: a Llama with a LLaVA's tower, trained by LLaVA's two stages.

Before them, in `words`, the projector learns to return the sum of the Llama's embeddings of the
words for each patch: images mean something from the beginning. `projector` trains the projector on
conversations, `language` the Llama too; the tower is frozen. The directory is an ordinary LLaVA at
any time; its folder `training` has the stages' states, from which longer budgets go on.

Shape letters: C classes of a label, N patches, H width of the Llama.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    CLIPImageProcessorPil,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import resolve
from mmspec.families.llava import LlavaVision
from mmspec.ground.errors import UsageError
from mmspec.prompt.chat_template import LLAVA, load_template
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_torch.device.devices import find_device
from mmspec_train.data.corpus import WorldCorpus, task_shares
from mmspec_train.data.record import IGNORED, ConversationRecord, lay_out, tokenize
from mmspec_train.data.stored import TeacherCache
from mmspec_train.mini import build, samples
from mmspec_train.mini.recipe import TARGET_SHARES, TARGET_STAGES
from mmspec_train.mini.settings import TargetSettings
from mmspec_train.mini.tokenizer import IMAGE
from mmspec_train.run.log import open_log
from mmspec_train.run.loop import Phase, run_phase
from mmspec_train.run.machine import Machine, reuse_memory
from mmspec_train.run.run_manifest import NEW_OUT, claim
from mmspec_train.settings import Budget
from mmspec_world.drawing import LABEL_WORDS, PLACES
from mmspec_world.split import Split

PARTS_AS_TEXT = """\
{%- set texts = namespace(messages=[]) -%}
{%- for message in messages -%}
  {%- set text -%}
    {%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}
      {%- for part in message['content'] -%}
        {{ '<image>\\n' if part['type'] == 'image' else part['text'] }}
      {%- endfor -%}
    {%- endif -%}
  {%- endset -%}
  {%- set texts.messages = texts.messages + [{'role': message['role'], 'content': text}] -%}
{%- endfor -%}
{%- set messages = texts.messages -%}
"""
"""Start of a chat template that turns messages of text and images into messages of text."""
CHECKPOINT_SECONDS = 300.0
WARM_UP = 20
TEXT_SHARE = 0.25
"""Share of answers to text in the last stage."""
PICTURES = 32
"""Number of pictures in a batch of the stage `words`."""


def train_target(settings: TargetSettings, budget: Budget) -> None:
    """Train a target into `settings.out`, going on where a run before ended.

    Raises UsageError, before writing, for parts that do not fit, and for a directory that belongs
    to a run with other options.
    """
    language, tower = resolve(settings.language, "torch"), resolve(settings.tower, "torch")
    texts = _check(language, tower, settings.answers_dir)
    out, state = settings.out, settings.out / "training"
    machine = Machine(find_device(settings.device), False, CHECKPOINT_SECONDS)
    options = asdict(settings) | {"language": language, "tower": tower}
    learned = ("language", "tower", "answers_dir", "task", "batch", "seed")
    named = {f"--{name.replace('_', '-')}": str(options[name]) for name in learned}
    claim(state / "about.json", named, NEW_OUT)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    reuse_memory()
    if not (out / "processor_config.json").exists():  # the last file that is written
        build.save_llava(*join(language, tower, settings.seed), out)
    target = Target(settings, texts)
    files = [state / f"{stage}.checkpoint" for stage in TARGET_STAGES]
    latest = max((number for number, file in enumerate(files) if file.exists()), default=0)
    with open_log(out) as log:
        for stage, file in list(zip(TARGET_STAGES, files, strict=True))[latest:]:
            length = budget.scaled(TARGET_STAGES[stage][0])
            run_phase(target.phase(stage), length, machine, file, log)
            build.save_weights(target.model, out)


def _check(language: Path, tower: Path, answers: Path | None) -> list[ConversationRecord]:
    """Return the Llama's answers.  Raises UsageError for parts of other kinds, and for none."""
    config, vision = read_config(language), read_config(tower).vision
    if (kind := config.family.model_type) != "llama":
        raise UsageError(f"{language} is a {kind}: --language is a Llama of text alone")
    if not isinstance(vision, LlavaVision) or not vision.drops_class_token:
        raise UsageError(f"{tower} has no tower of patches alone: --tower is a LLaVA, such as mini")
    records = TeacherCache(answers, "train", config.text.hidden_size).records() if answers else []
    if answers and not records:
        raise UsageError(f"{answers} has no answers: make them by `mmspec train distill`")
    return records


def join(
    language: Path, tower: Path, seed: int
) -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    """Return a LLaVA of a Llama and a LLaVA's tower, with a random projector, and its processor."""
    torch.manual_seed(seed)
    llama = LlamaForCausalLM.from_pretrained(language, dtype=torch.float32)
    sees = LlavaForConditionalGeneration.from_pretrained(tower, dtype=torch.float32)
    tokens = AutoTokenizer.from_pretrained(language, extra_special_tokens={"image_token": IMAGE})
    image_id: Any = tokens.convert_tokens_to_ids(IMAGE)
    if image_id >= llama.config.vocab_size:
        llama.resize_token_embeddings(image_id + 1, mean_resizing=False)
    vision: Any = sees.config.vision_config
    own: Any = read_config(tower).vision
    vision.num_hidden_layers = own.layers  # up to the one whose output is used
    config = LlavaConfig(
        vision_config=vision,
        text_config=llama.config,
        image_token_index=image_id,
        image_seq_length=sees.config.image_seq_length,
        vision_feature_layer=-1,
        tie_word_embeddings=llama.config.tie_word_embeddings,
    )
    model = LlavaForConditionalGeneration(config)
    model.model.vision_tower.load_state_dict(sees.model.vision_tower.state_dict(), strict=False)
    model.model.language_model.load_state_dict(llama.model.state_dict())
    model.lm_head.load_state_dict(llama.lm_head.state_dict())
    model.generation_config = llama.generation_config
    template = load_template(language).source
    processor = LlavaProcessor(  # type: ignore[no-untyped-call]
        CLIPImageProcessorPil.from_pretrained(tower),
        tokens,
        patch_size=vision.patch_size,
        vision_feature_select_strategy="default",
        chat_template=template if template == LLAVA else PARTS_AS_TEXT + template,
        num_additional_image_tokens=1,
    )
    return model, processor


class Target:
    """A LLaVA in training, and what it learns from."""

    def __init__(self, settings: TargetSettings, texts: Sequence[ConversationRecord]) -> None:
        """Read the checkpoint in `settings.out`.  texts: answered by the Llama itself."""
        out = settings.out
        self.settings, self.texts = settings, texts
        self.model = LlavaForConditionalGeneration.from_pretrained(out, dtype=torch.float32)
        self.vision: Any = read_config(out).vision
        self.tokenizer, self.template = Tokenizer.read(out), load_template(out)

    def phase(self, stage: str) -> Phase[Any]:
        """Return a stage of training."""
        return Phase(
            stage,
            self.model,
            build.parts(self.model, TARGET_STAGES[stage][1]),
            self.word_loss if stage == "words" else partial(build.learned_loss, self.model),
            [self.batches(stage, "train")],
            self.batches(stage, "held-out"),
            warm_up=WARM_UP,
            muon=False,
        )

    def batches(self, stage: str, split: Split) -> samples.LabelledPictures | samples.SampleBatches:
        """Return a stage's batches: pictures with their words, or conversations."""
        settings, vision = self.settings, self.vision
        size, seed = vision.image_size, settings.seed
        if stage == "words":
            return samples.LabelledPictures(size, vision.side, PICTURES, seed, split)
        corpus = WorldCorpus(task_shares(settings.task) or TARGET_SHARES, size, split, seed)
        mixes = stage == "language" and split == "train" and self.texts
        draw = partial(self.draw, corpus, TEXT_SHARE if mixes else 0.0)
        return samples.SampleBatches(draw, 0, settings.batch, seed, split)

    def draw(
        self, corpus: WorldCorpus, text_share: float, rng: random.Random
    ) -> samples.EncodedSample:
        """Draw a conversation of the world, or of the texts, in the target's chat template."""
        if rng.random() < text_share:
            record, images = rng.choice(self.texts), []
        else:
            number = rng.getrandbits(48)
            turns = corpus.turns(number)
            end = min(self.tokenizer.eos_ids)
            record = tokenize(number, turns, self.template, self.tokenizer, end)
            images = [picture.image for turn in turns for picture in turn.question.pictures]
        patches, image_id = self.vision.side**2, self.model.config.image_token_id
        ids, targets, _ = lay_out(record, image_id, [patches] * len(images))
        weights = [1.0 for token in targets if token != IGNORED]
        return samples.EncodedSample(ids, targets, weights, samples.stacked(images), patches)

    def word_loss(self, batch: samples.LabelledBatch) -> Tensor:
        """Return the error of projected patches, relative to the sums of their words' embeddings.

        A patch of a thing has its labels' words and its place's, others have the background's.
        """
        words = [self._embeddings(words) for words in LABEL_WORDS.values()]
        rows = [each[labels] for each, labels in zip(words, batch.labels, strict=True)]
        third = np.arange(self.vision.side) * 3 // self.vision.side
        places = self._embeddings(PLACES)[(third[:, None] * 3 + third).ravel()]
        is_thing = (batch.labels[:-1] > 0).any(0).unsqueeze(-1)
        expected = torch.where(is_thing, torch.stack(rows[:-1]).sum(0) + places, rows[-1])
        inner = self.model.model
        features = build.patch_features(inner.vision_tower, batch.pixels)
        errors = inner.multi_modal_projector(features) - expected
        weights = torch.where(is_thing, 1.0, build.EMPTY_WEIGHT)
        mean: Tensor = (errors.square().mean(-1, keepdim=True) * weights).sum() / weights.sum()
        return mean / expected.square().mean()

    def _embeddings(self, words: Sequence[str]) -> Tensor:
        """Return the mean input embedding of each word's tokens [C, H], zeros for no word."""
        table = self.model.model.language_model.embed_tokens.weight.detach()
        ids = [self.tokenizer.encode(f" {word}") if word else [] for word in words]
        return torch.stack([table[each].sum(0) / max(1, len(each)) for each in ids])
