"""The frozen target: its input format, hidden states and output matrix.

Shape letters: B sequences, L columns, m visual positions of all images, l layers of DeepStack,
H width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.chat.calibration import content_digest, shape_digest
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.manifest import LM_HEAD
from mmspec.decoding.contract import Float32
from mmspec.families.family import Preprocessing
from mmspec.ground.errors import ImageError, UsageError
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer, shared_vocabulary
from mmspec_torch.backend import TorchBackend, TorchModel
from mmspec_torch.device.weights import read_tensor
from mmspec_torch.network.vision import TorchFeatures
from mmspec_train.data.batch import Batch, Sides


class Teacher:
    """The frozen target model, its tokenizer, chat template and preprocessing."""

    def __init__(self, directory: Path, device: str = "auto", dtype: str = "auto") -> None:
        if read_config(directory).text.delta_net:
            raise UsageError(
                f"{directory} has recurrent layers, which read one conversation at a time: "
                "nothing is trained for such a target; a Qwen3.5 brings a drafter of its own"
            )
        self.directory = directory
        self.model: TorchModel = TorchBackend().load(directory, device=device, dtype=dtype)
        self.config = self.model.config
        self.tokenizer = Tokenizer.read(directory, self.config.family.image_tokens)
        self.template = load_template(directory)
        self.end = self.tokenizer.end(self.config.eos_token_ids)
        """The token that ends a dataset's answers."""
        vision, language = self.config.vision, self.model.language
        # With the limit on tokens that a chat has by default.
        self.preprocessing = vision.preprocessing(directory).with_limit(None) if vision else None
        self.output_matrix = language.embedding
        if not self.config.text.tie_word_embeddings:
            matrix = read_tensor(plan(directory, self.config)[LM_HEAD], language.dtype)
            self.output_matrix = matrix.to(language.device)
        self.captured_layers: tuple[int, ...] = ()
        """Layers whose outputs a batch holds too."""
        self.stop = self.tokenizer.eos_ids | frozenset(self.config.eos_token_ids)
        """The tokens that end an answer."""
        image = self.config.image_id
        self.image_id = self.tokenizer.newline_id if image is None else image
        """The image token, or a newline for a text-only model."""

    def check_vocabulary(self, draft: Path) -> None:
        """Raise UsageError if a token of a draft's checkpoint has another id in the target."""
        shared_vocabulary(self.tokenizer, Tokenizer.read(draft))

    def pixels(self, picture: Picture) -> Float32:
        """Preprocess a picture into pixels [3, height, width] for the vision tower."""
        return self._images.pixels(picture.image)

    def sides(self, picture: Picture) -> Sides:
        """Height and width of a picture's pixel values.  Raises ImageError if it has none."""
        try:
            return self._images.size(*picture.image.size)
        except ImageError as error:
            raise ImageError(f"{picture.name or 'an image'}: {error}") from error

    @property
    def _images(self) -> Preprocessing:
        if self.preprocessing is None:
            raise ImageError("this model is text-only: it cannot look at an image")
        return self.preprocessing

    def digest(self) -> str:
        """Return a digest of the target's files, and the type in which it computes."""
        files = shape_digest(self.directory), content_digest(self.directory)
        return " ".join((*files, self.model.dtype))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [..., H] of tokens."""
        return self.model.language.embed(ids.to(self.model.language.device))

    def features(self, images: Sequence[Float32]) -> list[TorchFeatures]:
        """Return the tower's features of images [3, height, width], as in decoding."""
        with torch.autocast(self.output_matrix.device.type, enabled=False):
            return [self.model.encode(image) for image in images]

    @torch.no_grad()
    def image_rows(self, features: Sequence[TorchFeatures]) -> Tensor:
        """Return the rows [m (1 + l), H] of images; see `Batch.image_rows`."""
        empty = self.model.language.embedding[:0]
        rows = (self.model.place(image).reshape(-1, empty.shape[1]) for image in features)
        return torch.cat([empty, *rows])

    @torch.no_grad()
    def read(self, batch: Batch, features: Sequence[TorchFeatures] = ()) -> Batch:
        """Add embeddings and states to a batch, stored or computed from the tower's `features`."""
        is_stored = batch.states.numel() > 0
        is_complete = is_stored and (batch.layer_outputs.numel() > 0 or not self.captured_layers)
        with torch.autocast(self.output_matrix.device.type, enabled=False):
            images = batch.image_rows
            if not is_stored:
                images = self.image_rows(features or self.features(batch.pixels))
            inputs, width = self._inputs(batch, images), self.config.text.hidden_size
            states, layer_outputs = batch.states, batch.layer_outputs
            if not is_complete:
                states, layer_outputs = self.hidden_states(inputs, batch.positions)
        return replace(
            batch,
            states=states.float(),
            embeddings=inputs[..., :width].float(),
            layer_outputs=layer_outputs.float(),
        )

    def _inputs(self, batch: Batch, images: Tensor) -> Tensor:
        """Return embeddings and, beside them, what DeepStack adds [B, L, (1 + l) H]."""
        inputs, visual = self.embed(batch.ids), batch.visual
        if any(batch.images):
            rows = images.to(inputs.dtype).reshape(int(visual.sum()), -1)
            inputs = F.pad(inputs, (0, rows.shape[1] - inputs.shape[-1]))
            inputs[visual] = rows
        return inputs

    @torch.no_grad()
    def hidden_states(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states [B, L, H] after the last norm, and the captured layers' [B, L, c H].

        inputs: see `_inputs`; positions [B, 3, L]: see `Batch`.  No column attends to the padding.
        """
        (rows, columns), language = inputs.shape[:2], self.model.language
        width = language.config.hidden_size
        angles = language.rotary.planes(positions.cpu().numpy())
        x, *extras = torch.split(inputs.flatten(0, 1), width, dim=1)
        sequence = x.clone(), language.new_cache(rows), 0, angles
        outputs = language.follow(*sequence, deepstack=extras, captured_layers=self.captured_layers)
        outputs = outputs.view(rows, columns, -1)
        return language.states(outputs[..., :width]), outputs[..., width:]
