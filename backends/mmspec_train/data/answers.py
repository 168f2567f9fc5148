"""The target's answers to many conversations at once.

Shape letters: R rows, n columns, m image rows, H width.
"""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor

from mmspec.decoding.contents import Row
from mmspec.decoding.contract import Segment
from mmspec.decoding.language import deepstack
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.images import Picture
from mmspec_torch.device.device_io import upload
from mmspec_torch.network.attention import hiding_number
from mmspec_train.data.batch import ConversationRecord
from mmspec_train.data.teacher import Teacher


@torch.no_grad()
def answer_all(
    teacher: Teacher,
    conversations: Sequence[tuple[ConversationRecord, Sequence[Picture]]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> list[tuple[ConversationRecord, Tensor]]:
    """Answer conversations turn by turn, each answer in at most `max_tokens` tokens.

    An answer becomes part of its conversation. A sampled answer depends only on the seed and the
    number of its conversation. Returns each conversation with its states and image rows [n + m, H].
    """
    records, pictures = zip(*conversations, strict=True)
    images = [teacher.features(list(map(teacher.pixels, row))) for row in pictures]
    rows = _Rows(teacher, sampling, [seed + record.number for record in records])
    streams = [iter(row) for row in images]
    answers: list[list[list[int]]] = [[] for _ in records]
    for prompts in zip_longest(*(record.prompts for record in records), fillvalue=()):
        segments = [
            Segment([next(row) if token == NO_TOKEN else [token] for token in prompt])
            for prompt, row in zip(prompts, streams, strict=True)
        ]
        for row, answer in enumerate(rows.answer(segments, max_tokens)):
            answers[row] += [answer] if prompts[row] else []
    pairs = []
    parts = zip(records, answers, rows.states(), images, strict=True)
    for record, turns, states, features in parts:
        has_stop = tuple(answer[-1] in teacher.stop for answer in turns)
        record = replace(record, answers=tuple(map(tuple, turns)), has_stop=has_stop)
        pairs.append((record, torch.cat((states, teacher.image_rows(features)))))
    return pairs


class _Rows:
    """A batch of conversations that decode together. The attention mask hides padding."""

    def __init__(self, teacher: Teacher, sampling: Sampling, seeds: Sequence[int]) -> None:
        self._language = language = teacher.model.language
        self._cache, self._stop = language.new_cache(len(seeds)), teacher.stop
        self._contents: list[Row[Tensor]] = [Row() for _ in seeds]
        self._place = teacher.model.place
        self._sampler, self._seeds = language.framework.sampler(sampling), seeds
        self._is_token = torch.zeros(len(seeds), 0, dtype=torch.bool, device=language.device)
        self._lengths = [0] * len(seeds)  # of tokens, on the host: the device is not waited for
        self._states: list[Tensor] = []

    def answer(self, prompts: Sequence[Segment], max_tokens: int) -> list[list[int]]:
        """Feed a prompt to each row; returns the answers, [] to an empty prompt."""
        last = self._feed(prompts)
        answers: list[list[int]] = [[] for _ in prompts]
        live = [len(prompt) > 0 for prompt in prompts]
        for _ in range(max_tokens):
            noises = map(Noise, self._seeds, self._lengths)
            keys = torch.cat([self._language.framework.keys(noise, 1) for noise in noises])
            tokens = self._sampler.tokens(self._language.project(last), keys).tolist()
            for row, token in enumerate(tokens):
                if live[row]:
                    answers[row].append(token)
                    live[row] = token not in self._stop
            if not any(live):
                break
            pairs = zip(tokens, live, strict=True)
            last = self._feed([Segment([[token]] if alive else []) for token, alive in pairs])
        return answers

    def states(self) -> list[Tensor]:
        """Return the hidden states [n, H] of all columns fed to each row, in order."""
        rows = zip(torch.cat(self._states, dim=1), self._is_token, strict=True)
        return [states[is_token] for states, is_token in rows]

    def _feed(self, segments: Sequence[Segment]) -> Tensor:
        """Feed a padded segment to each row; returns the last column's states [R, H] of each."""
        language, rows, start = self._language, len(segments), self._is_token.shape[1]
        counts = list(map(len, segments))
        width = max(counts)
        end = start + width
        for row, segment in zip(self._contents, segments, strict=True):
            row.append(start, segment, self._place)
            row.append(start + len(segment), Segment([]), self._place, width - len(segment))
        ids = [row.ids(start, end, language.config.vocab_size) for row in self._contents]
        x = language.embed(upload(ids, torch.long, language.device))
        for row, columns_of_row in zip(self._contents, x, strict=True):
            row.write_images(columns_of_row, start, end)
        columns, ends = torch.arange(width, device=x.device), upload(counts, torch.long, x.device)
        self._is_token = torch.cat((self._is_token, columns < ends[:, None]), dim=1)
        positions = np.stack([row.positions(start, end) for row in self._contents])
        angles = language.rotary.planes(positions)
        extras = [rows.flatten(0, 1) for rows in deepstack(language, self._contents, start, end)]
        padding = (~self._is_token).to(x.dtype) * hiding_number(x.dtype)
        mask = padding[:, None, None] if start else None
        outputs = language.follow(x.flatten(0, 1), self._cache, start, angles, mask, extras)
        states = language.states(outputs).view(rows, width, -1)
        self._states.append(states)
        self._lengths = [a + b for a, b in zip(self._lengths, counts, strict=True)]
        return states[torch.arange(rows, device=x.device), ends.clamp(min=1) - 1]
