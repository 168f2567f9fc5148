"""The frozen target: its input format, hidden states and output matrix.

Shape letters: B sequences, L columns, M images, N positions of one image, H width, V vocabulary.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.manifest import LM_HEAD
from mmspec.errors import UsageError
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer, shared_vocabulary
from mmspec.seam import Float32
from mmspec_torch.backend import TorchBackend
from mmspec_torch.model import TorchModel
from mmspec_torch.network.cache import CacheSpan
from mmspec_torch.network.decoder import Step
from mmspec_torch.network.vision import TorchFeatures
from mmspec_torch.weights import read_tensor
from mmspec_train.teacher.batch import ConversationBatch, TeacherBatch


class Teacher:
    """The frozen target model, its tokenizer, chat template and preprocessing."""

    def __init__(self, directory: Path, device: str = "auto", dtype: str = "auto") -> None:
        self.directory = directory
        self.model: TorchModel = TorchBackend().load(directory, device=device, dtype=dtype)
        self.config = self.model.config
        if self.config.text.rotary_axes:
            kind = self.config.family.model_type
            raise UsageError(f"{directory} is a {kind}: heads are trained for llava and llama")
        self.tokenizer, self.template = Tokenizer.read(directory), load_template(directory)
        vision = self.config.vision
        self.preprocessing = vision.preprocessing(directory) if vision else None
        self.output_matrix = self._output_matrix()
        self.captured: tuple[int, ...] = ()
        """Layers whose outputs are computed too, in every read: they are never stored."""

    def _output_matrix(self) -> Tensor:
        language = self.model.language
        if self.config.text.tie_word_embeddings:
            return language.embedding
        return read_tensor(plan(self.directory, self.config)[LM_HEAD], language.dtype).to(
            language.device
        )

    @property
    def stop(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return self.tokenizer.eos_ids | frozenset(self.config.eos_token_ids)

    @property
    def image_id(self) -> int:
        """The image token, or a newline for a text-only model."""
        image = self.config.image_token_id
        return self.tokenizer.newline_id if image is None else image

    def check_vocabulary(self, draft: Path) -> None:
        """Raise UsageError if a token of a draft's checkpoint has another id in the target."""
        shared_vocabulary(self.tokenizer, Tokenizer.read(draft))

    def pixels(self, picture: Picture) -> Float32:
        """Preprocess a picture into pixels [3, height, width] for the vision tower."""
        if self.preprocessing is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        return self.preprocessing.pixels(picture.image)

    def digest(self) -> str:
        """Return a digest of the embeddings and output matrix, which identifies the target."""
        tensors = (self.model.language.embedding, self.output_matrix)
        content = b"".join(t.detach().cpu().float().numpy().tobytes() for t in tensors)
        return hashlib.sha256(content).hexdigest()[:16]

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [..., H] of tokens."""
        return self.model.language.embed(ids)

    @torch.no_grad()
    def features(self, images: Sequence[Float32]) -> list[TorchFeatures]:
        """Return the tower's features of images [3, height, width]."""
        return [self.model.encode(image) for image in images]

    @torch.no_grad()
    def embed_images(self, features: Sequence[TorchFeatures]) -> Tensor:
        """Project tower features into image embeddings [M, N, H]."""
        shape = 0, self.config.image_tokens, self.config.text.hidden_size
        language = self.model.language
        if not features:
            return torch.zeros(shape, device=language.device, dtype=language.dtype)
        return torch.stack([self.model.placed(image) for image in features])

    @torch.no_grad()
    def read(
        self, batch: ConversationBatch, features: Sequence[TorchFeatures] = ()
    ) -> TeacherBatch:
        """Add hidden states to a batch: the stored ones, else computed by the target.

        features: the tower's features of the batch's images, if already computed.
        """
        with torch.autocast(self.output_matrix.device.type, enabled=False):
            if batch.is_stored:
                images = batch.image_embeddings
            else:
                images = self.embed_images(features or self.features(batch.pixels))
            embeddings = self.embed(batch.ids)
            embeddings[batch.visual] = images.flatten(0, 1).to(embeddings.dtype)
            states, captured = batch.states, embeddings[..., :0]
            if self.captured or not batch.is_stored:
                states, captured = self.hidden_states(embeddings)
        tokens = batch.ids, batch.targets, batch.images, batch.lengths
        return TeacherBatch(*tokens, states.float(), embeddings.float(), captured.float())

    @torch.no_grad()
    def hidden_states(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states [B, L, H] after the last norm, and the captured layers' [B, L, c H].

        No column attends to the padding.
        """
        rows, columns, width = embeddings.shape
        language = self.model.language
        span = CacheSpan(language.new_cache(rows), 0, columns)
        angles = language.rotary.run(0, columns)
        step = Step(angles, span, causal=True, captured=self.captured)
        x = embeddings.to(language.dtype).reshape(-1, width).clone()
        outputs = language.forward(x, step).view(rows, columns, -1)
        return language.states(outputs[..., :width]), outputs[..., width:]
