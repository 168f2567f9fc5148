"""The frozen target as a teacher: its answers, its hidden states, its output matrix.

Shape letters: B sequences, L columns, M images, N positions of one image, D width of the tower,
H width, V vocabulary.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mmspec.checkpoint import plan
from mmspec.config import ModelConfig
from mmspec.errors import UsageError
from mmspec.images import Picture, Preprocessing, pixels, read_preprocessing
from mmspec.manifest import LM_HEAD
from mmspec.seam import Float32
from mmspec.template import ChatTemplate, load_template
from mmspec.tokenizer import Tokenizer
from mmspec_torch.backend import TorchBackend
from mmspec_torch.cache import Span
from mmspec_torch.device import upload
from mmspec_torch.llama import Step
from mmspec_torch.llava import TorchFeatures, TorchModel
from mmspec_torch.train.distill.batch import Batch
from mmspec_torch.train.distill.record import Record, Script
from mmspec_torch.train.distill.rows import Answering, Choose, Rows, likeliest
from mmspec_torch.train.heads.lesson import Lesson
from mmspec_torch.weights import read_tensor


@dataclass(frozen=True, slots=True)
class Reading:
    """How text and pictures become the target's input; small, for processes that prepare data."""

    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    preprocessing: Preprocessing | None

    @classmethod
    def of(cls, directory: Path, config: ModelConfig) -> "Reading":
        """Read a checkpoint's tokenizer, template and preprocessing."""
        vision = config.vision
        preprocessing = read_preprocessing(directory, vision.image_size) if vision else None
        return cls(config, Tokenizer.read(directory), load_template(directory), preprocessing)

    @property
    def stop(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.tokenizer.eos_ids | frozenset(self.config.eos_token_ids)

    @property
    def image_id(self) -> int:
        """The image token, or a newline for a model that sees none."""
        image = self.config.image_token_id
        return self.tokenizer.newline_id if image is None else image

    def pixels(self, picture: Picture) -> Float32:
        """Pixels [3, height, width] as the tower takes them."""
        if self.preprocessing is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        return pixels(picture, self.preprocessing)


@dataclass(frozen=True, slots=True)
class Told:
    """A target's answers, and what it thought while it gave them."""

    record: Record
    states: Tensor
    """[n, H]"""
    visual: Tensor
    """[M, N, H] embeddings of the images."""


class Teacher:
    """A frozen target."""

    def __init__(self, directory: Path, device: str = "auto", dtype: str = "auto") -> None:
        """Load a checkpoint; raises what `TorchBackend.load` does."""
        self.directory = directory
        self.model: TorchModel = TorchBackend().load(directory, device=device, dtype=dtype)
        self.config = self.model.config
        self.reading = Reading.of(directory, self.config)
        self.output = self._output()

    def _output(self) -> Tensor:
        """The matrix [V, H] that turns hidden states into logits."""
        llama = self.model.llama
        if self.config.text.tie_word_embeddings:
            return llama.embedding
        return read_tensor(plan(self.directory, self.config)[LM_HEAD], llama.dtype).to(llama.device)

    def digest(self) -> str:
        """Tells this target from any other that was trained apart."""
        tensors = (self.model.llama.embedding, self.output)
        content = b"".join(t.detach().cpu().float().numpy().tobytes() for t in tensors)
        return hashlib.sha256(content).hexdigest()[:16]

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [..., H] of tokens."""
        return self.model.llama.embed(ids)

    @torch.no_grad()
    def features(self, images: Sequence[Float32]) -> list[TorchFeatures]:
        """The tower's features of images [3, height, width]."""
        return [self.model.encode(image) for image in images]

    @torch.no_grad()
    def seen(self, features: Sequence[TorchFeatures]) -> Tensor:
        """Embeddings [M, N, H] of images."""
        shape = 0, self.config.image_tokens, self.config.text.hidden_size
        llama = self.model.llama
        if not features:
            return torch.zeros(shape, device=llama.device, dtype=llama.dtype)
        return torch.stack([self.model.projected(each) for each in features])

    @torch.no_grad()
    def lesson(self, batch: Batch, features: Sequence[TorchFeatures] = ()) -> Lesson:
        """Read a batch: its hidden states as they are stored, or computed here and now.

        features: of its images, where they are known already.
        """
        with torch.autocast(self.output.device.type, enabled=False):
            return self._lesson(batch, features)

    def _lesson(self, batch: Batch, features: Sequence[TorchFeatures]) -> Lesson:
        if batch.is_stored:
            images = batch.visual
        else:
            images = self.seen(features or self.features(batch.pixels))
        embeddings = self.embedded(batch.ids, batch.images, images)
        states = batch.states if batch.is_stored else self.states(embeddings)
        return Lesson(
            batch.ids,
            batch.learned,
            batch.targets,
            states.float(),
            embeddings.float(),
            batch.images,
            batch.lengths,
        )

    def embedded(
        self, ids: Tensor, spans: Sequence[Sequence[tuple[int, int]]], images: Tensor
    ) -> Tensor:
        """Embeddings [B, L, H] of ids [B, L], images [M, N, H] in their places, in order."""
        x = self.embed(ids)
        places = [(row, span) for row, some in enumerate(spans) for span in some]
        for (row, (first, end)), image in zip(places, images, strict=True):
            x[row, first:end] = image.to(x.dtype)
        return x

    @torch.no_grad()
    def states(self, embeddings: Tensor) -> Tensor:
        """Hidden states [B, L, H] after the last norm; padding comes last and is seen by none."""
        rows, columns, width = embeddings.shape
        llama = self.model.llama
        span = Span(llama.new_cache(rows), 0, columns)
        step = Step(llama.rotary.run(0, columns), span, causal=True)
        x = embeddings.to(llama.dtype).reshape(-1, width).clone()
        return llama.states(llama.forward(x, step)).view(rows, columns, width)

    @torch.no_grad()
    def answers(
        self, scripts: Sequence[Script], budget: int, choose: Choose = likeliest
    ) -> list[Told]:
        """Answer conversations turn by turn, all at once, each answer of at most `budget` tokens.

        An answer is greedy unless `choose` says otherwise, and becomes part of the conversation.
        """
        shown = [self.features([self.reading.pixels(p) for p in s.pictures]) for s in scripts]
        images = [self.seen(some) for some in shown]
        llama = self.model.llama
        rows = Rows(llama, len(scripts))
        under_way = Answering(rows, llama, self.reading.stop, choose, [], [])
        unseen = [iter(some) for some in images]
        said: list[list[list[int]]] = [[] for _ in scripts]
        for turn in range(max(len(each.prompts) for each in scripts)):
            parts = [s.prompts[turn] if turn < len(s.prompts) else () for s in scripts]
            fed = [self._prompt(p, shown) for p, shown in zip(parts, unseen, strict=True)]
            lengths = [len(each) for each in fed]
            padded = torch.nn.utils.rnn.pad_sequence(fed, batch_first=True)
            answers = under_way.ask(padded, lengths, budget)
            for row, answer in enumerate(answers):
                said[row] += [answer] if parts[row] else []
        stop = self.reading.stop
        return [
            Told(script.record(said[row], stop), under_way.kept(row), images[row])
            for row, script in enumerate(scripts)
        ]

    def _prompt(
        self, parts: Sequence[tuple[int, ...] | Picture], shown: Iterator[Tensor]
    ) -> Tensor:
        """Embeddings [n, H] of one prompt."""
        rows = [next(shown) if isinstance(part, Picture) else self._text(part) for part in parts]
        return torch.cat(rows) if rows else self._text(())

    def _text(self, ids: Sequence[int]) -> Tensor:
        return self.embed(upload(ids, torch.long, self.model.llama.device))
