"""A quick look at what a model has learned: greedy answers to held-out samples, judged."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from transformers import LlavaForConditionalGeneration

from mmspec.bench import world
from mmspec_torch.train import build, conversation
from mmspec_torch.train.conversation import Ids
from mmspec_torch.train.tokenizer import BOS, EOS, PAD, token_id

BLANK = (128, 128, 128)
NEW_TOKENS = 120


@dataclass(frozen=True, slots=True)
class Answered:
    """A sample and the model's answer to its last question; earlier answers were given."""

    sample: world.Sample
    answer: str

    def right(self) -> Iterator[tuple[str, bool]]:
        """Yield each asked fact's category and whether the answer states it."""
        for fact in self.sample.turns[-1].facts:
            yield fact.category, world.judge(fact, self.answer)


@dataclass(frozen=True)
class Probe:
    """A model with its tokenizer, asked in batches."""

    model: LlavaForConditionalGeneration
    tokenizer: Tokenizer
    batch: int = 32

    @classmethod
    def load(cls, directory: Path) -> "Probe":
        """Load a checkpoint directory in float32."""
        model = LlavaForConditionalGeneration.from_pretrained(directory, dtype=torch.float32)
        return cls(model, Tokenizer.from_file(str(directory / "tokenizer.json")))

    def answers(self, samples: Iterable[world.Sample]) -> Iterator[Answered]:
        """Yield greedy answers, prompts of like length together."""
        prompts = sorted(((self._prompt(s), s) for s in samples), key=lambda p: len(p[0]))
        for start in range(0, len(prompts), self.batch):
            some = prompts[start : start + self.batch]
            told = self._generate([ids for ids, _ in some], [sample for _, sample in some])
            yield from (Answered(s, text) for (_, s), text in zip(some, told, strict=True))

    def _prompt(self, sample: world.Sample) -> Ids:
        *before, _ = conversation.texts(sample)
        ids = self.tokenizer.encode("".join(before)).ids
        patches: int = self.model.config.image_seq_length
        return conversation.expanded(np.array(ids), self.tokenizer, patches)

    @torch.no_grad()
    def _generate(self, prompts: list[Ids], samples: list[world.Sample]) -> list[str]:
        longest = max(map(len, prompts))
        ids = np.full((len(prompts), longest), token_id(self.tokenizer, PAD))
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt
        tokens = torch.from_numpy(ids)
        pixels = np.concatenate([conversation.pixels(sample) for sample in samples])
        model: Any = self.model  # transformers' annotations of `generate` name no model of its own
        out = model.generate(
            input_ids=tokens,
            attention_mask=(tokens != token_id(self.tokenizer, PAD)).long(),
            pixel_values=build.normalised(torch.from_numpy(pixels)),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            bos_token_id=token_id(self.tokenizer, BOS),
            eos_token_id=token_id(self.tokenizer, EOS),
            pad_token_id=token_id(self.tokenizer, PAD),
        )
        return self.tokenizer.decode_batch(out[:, longest:].tolist())


def held_out(count: int, tasks: Iterable[str] = world.TASKS, size: int = 144) -> list[world.Sample]:
    """Return `count` held-out samples of each task."""
    return [
        world.sample(task, seed, split="held-out", size=size)
        for task in tasks
        for seed in range(count)
    ]


def blanked(sample: world.Sample) -> world.Sample:
    """Return a sample with its pictures painted over in grey."""
    blank = tuple(Image.new("RGB", image.size, BLANK) for image in sample.images)
    return replace(sample, images=blank)


def accuracy(answered: Iterable[Answered]) -> dict[str, tuple[int, int]]:
    """Count, per category and in "all", the facts stated rightly and the facts asked."""
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for category, is_right in (fact for one in answered for fact in one.right()):
        asked.update((category, "all"))
        right.update((category, "all") if is_right else ())
    return {name: (right[name], count) for name, count in asked.items()}
