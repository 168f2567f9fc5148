"""Prompts and pictures for the PyTorch tests, and transformers' answers to them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import factory
from mmspec.loop import decode
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Features, Segment
from mmspec_torch.llama import Llama

IMAGE = factory.IMAGE_TOKEN_ID
NEWLINE = 13
TEXT = Segment([1, 20, 21, 22, 40, 41, 42])
WARM = Sampling(temperature=0.9)


def pixels(size: int, count: int = 1, seed: int = 0) -> np.ndarray:
    """Random preprocessed images [count, 3, size, size]."""
    shape = (count, 3, size, size)
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def prompt(images: Sequence[Features]) -> Segment:
    """Text, then each image followed by some text."""
    tokens = [1, 20, 21]
    for place, image in enumerate(images):
        tokens += [IMAGE] * image.positions + [NEWLINE, 30 + place]
    return Segment([*tokens, 40, 41, 42], images)


def without_images(segment: Segment) -> Segment:
    """The same text with a newline in place of each image."""
    tokens = list(segment.tokens)
    for image in segment.features:
        at = tokens.index(IMAGE)
        tokens[at : at + image.positions] = [NEWLINE]
    return Segment(tokens)


def plain(target: Any, count: int) -> list[int]:
    """Greedy tokens by verifying nothing, `count` times."""
    tokens = []
    for _ in range(count):
        tokens += target.verify(None, ()).fallback
        target.commit([], tokens[-1])
    return tokens


def opened(model: Any, segment: Segment, sampling: Any = GREEDY) -> Any:
    """A target that holds `segment`."""
    target = model.open_target(sampling)
    target.extend(segment)
    return target


def transformers_model(path: Path) -> Any:
    """The checkpoint as transformers runs it."""
    from transformers import AutoConfig, LlamaForCausalLM, LlavaForConditionalGeneration

    kind = AutoConfig.from_pretrained(path).model_type
    cls = {"llava": LlavaForConditionalGeneration, "llama": LlamaForCausalLM}[kind]
    return cls.from_pretrained(path, dtype=torch.float32).eval()


def generated(oracle: Any, tokens: Sequence[int], count: int, **inputs: Any) -> list[int]:
    """What transformers' own generate says, stop tokens ignored."""
    ids = torch.tensor([tokens])
    out = oracle.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=-1,
        pad_token_id=0,
        **inputs,
    )
    return out[0, len(tokens) :].tolist()


class Equal:
    """Every branch weighs the same."""

    def weights(self, row_lengths, gamma):
        return [1 / len(row_lengths)] * len(row_lengths)


def drafting(model, views, sampling=GREEDY):
    drafter = model.open_drafter(len(views), 320, sampling)
    drafter.extend(views)
    return drafter


def drafted(drafter, k, draws=()):
    rows = len(drafter.row_lengths)
    return drafter.draft(k, [1 / rows] * rows, draws).ids.tolist()


def rounds(target, drafter, count, gamma=4, seed=None):
    return list(decode(target, drafter, Equal(), gamma=gamma, max_tokens=count, seed=seed))


def spoken(all_rounds):
    return [token for each in all_rounds for token in each.tokens]


class Fault(BaseException):
    """Raised where an interrupt would be."""


def fail_at(patch, call):
    original, calls = Llama._attend, Counter()

    def attend(*given):
        calls["all"] += 1
        if calls["all"] == 2 * call:
            raise Fault
        return original(*given)

    patch.setattr(Llama, "_attend", attend)
