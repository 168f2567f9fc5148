"""The target's answers to many conversations at once.

Shape letters: R rows, n columns fed, C columns so far, H width.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.prompt.images import Picture
from mmspec_torch.device_io import upload
from mmspec_torch.framework import keys, sampler
from mmspec_torch.network.cache import CacheSpan
from mmspec_torch.network.decoder import LanguageModel, Step, hidden
from mmspec_train.teacher.batch import StoredStates
from mmspec_train.teacher.records import PICTURE, ConversationRecord
from mmspec_train.teacher.teacher import Teacher


@torch.no_grad()
def answer_all(
    teacher: Teacher,
    conversations: Sequence[tuple[ConversationRecord, Sequence[Picture]]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> list[tuple[ConversationRecord, StoredStates]]:
    """Answer conversations turn by turn, each answer in at most `max_tokens` tokens.

    An answer becomes part of its conversation. A sampled answer depends only on the seed and the
    number of its conversation. Returns each conversation with its hidden states.
    """
    stop = teacher.stop
    pixels = [list(map(teacher.pixels, pictures)) for _, pictures in conversations]
    images = [teacher.embed_images(teacher.features(row)) for row in pixels]
    records = [record for record, _ in conversations]
    rows = _Rows(teacher.model.language, sampling, [seed + record.number for record in records])
    unread = [iter(row) for row in images]
    answers: list[list[list[int]]] = [[] for _ in records]
    for turn in range(max(len(record.prompts) for record in records)):
        prompts = [r.prompts[turn] if turn < len(r.prompts) else () for r in records]
        embeddings = [_embed(teacher, p, row) for p, row in zip(prompts, unread, strict=True)]
        for row, answer in enumerate(rows.answer(embeddings, max_tokens, stop)):
            answers[row] += [answer] if prompts[row] else []
    return [
        (
            record.answered(answers[row], stop),
            StoredStates(rows.states(row), images[row].flatten(0, 1)),
        )
        for row, record in enumerate(records)
    ]


def _embed(teacher: Teacher, prompt: Sequence[int], images: Iterator[Tensor]) -> Tensor:
    """Return the embeddings [n, H] of a prompt; the next of `images` replaces each PICTURE."""
    ids = [max(token, 0) for token in prompt]
    x = teacher.embed(upload(ids, torch.long, teacher.model.language.device))
    places = [place for place, token in enumerate(prompt) if token == PICTURE]
    parts = torch.tensor_split(x, [edge for place in places for edge in (place, place + 1)])
    # Every second part is the row of a PICTURE.
    return torch.cat([next(images) if n % 2 else part for n, part in enumerate(parts)])


class _Rows:
    """A batch of conversations that decode together. The attention mask hides padding."""

    def __init__(self, language: LanguageModel, sampling: Sampling, seeds: Sequence[int]) -> None:
        self._language, self._cache = language, language.new_cache(len(seeds))
        self._sampler, self._seeds = sampler(sampling, language.device), seeds
        self._is_token = torch.zeros(len(seeds), 0, dtype=torch.bool, device=language.device)
        self._lengths = [0] * len(seeds)
        self._states: list[Tensor] = []
        self._counts: list[list[int]] = []

    def answer(
        self, prompts: Sequence[Tensor], max_tokens: int, stop: frozenset[int]
    ) -> list[list[int]]:
        """Feed a prompt [n, H] to each row; returns the answers, [] to an empty prompt."""
        lengths = [len(prompt) for prompt in prompts]
        last = self._feed(torch.nn.utils.rnn.pad_sequence(list(prompts), True), lengths)
        answers: list[list[int]] = [[] for _ in prompts]
        live = [bool(length) for length in lengths]
        for _ in range(max_tokens):
            tokens = self._sampler.tokens(self._language.project(last), self._keys())
            for row, token in enumerate(tokens.tolist()):
                if live[row]:
                    answers[row].append(token)
                    live[row] = token not in stop
            if not any(live):
                break
            last = self._feed(self._language.embed(tokens).unsqueeze(1), [int(row) for row in live])
        return answers

    def _keys(self) -> Tensor:
        """Return the noise keys [R, 2] of the next position of each row."""
        noises = map(Noise, self._seeds, self._lengths)
        return torch.cat([keys(noise, 1, self._language.device) for noise in noises])

    def states(self, row: int) -> Tensor:
        """Return the hidden states [n, H] of all columns fed to a row, in order."""
        parts = zip(self._states, self._counts, strict=True)
        return torch.cat([states[row, : counts[row]] for states, counts in parts])

    def _feed(self, x: Tensor, counts: list[int]) -> Tensor:
        """Feed embeddings [R, n, H]; of row r only the first counts[r] are real.

        Returns the hidden state [R, H] of each row's last real column; where counts[r] is 0, the
        value is arbitrary.
        """
        rows, width = x.shape[:2]
        start, end = self._is_token.shape[1], self._is_token.shape[1] + width
        columns, ends = torch.arange(width, device=x.device), upload(counts, torch.long, x.device)
        self._is_token = torch.cat((self._is_token, columns < ends[:, None]), dim=1)
        positions = [[length + n for n in range(width)] for length in self._lengths]
        step = Step(
            self._language.rotary.at(positions),
            CacheSpan(self._cache, start, end),
            self._mask(start, x) if start else None,
            causal=not start,
        )
        out = self._language.forward(x.reshape(rows * width, -1), step)
        states = self._language.states(out).view(rows, width, -1)
        self._states.append(states)
        self._counts.append(counts)
        self._lengths = [a + b for a, b in zip(self._lengths, counts, strict=True)]
        return states[torch.arange(rows, device=x.device), ends.clamp(min=1) - 1]

    def _mask(self, start: int, x: Tensor) -> Tensor:
        width = x.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool, device=x.device).tril()
        visible = self._is_token.unsqueeze(1) & F.pad(causal, (start, 0), value=True)
        return x.new_zeros(visible.shape).masked_fill_(~visible, hidden(x.dtype)).unsqueeze(1)
