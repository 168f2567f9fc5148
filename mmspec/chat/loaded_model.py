"""A checkpoint in memory with its tokenizer, chat template and image features."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never

import numpy as np

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.manifest import cache_bytes, state_bytes
from mmspec.decoding.contract import Backend, Features, Float32, Head, Model
from mmspec.decoding.delta_states import MOST_BORDERS
from mmspec.drafters.views import Branch, Views
from mmspec.families.family import Preprocessing
from mmspec.families.grid import Grid
from mmspec.ground.errors import CheckpointError, ContextError, UsageError
from mmspec.ground.latest_values import LatestValues
from mmspec.ground.progress import Progress, silent
from mmspec.prompt.chat_template import ChatTemplate, load_template
from mmspec.prompt.chunks import Chunk, answer_ids, render
from mmspec.prompt.conversation import Conversation, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer

MAX_FEATURES = 256 * 2**20
"""Bytes of images' features that stay on the device: in 16 bits 227 images of LLaVA-1.5, or 6 of
Qwen3-VL-8B with 1280 tokens each.
"""

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number, by a model's dtype."""


class FeatureCache:
    """Cache of vision features by image content; drops the least recently used."""

    def __init__(self, model: Model, preprocessing: Preprocessing) -> None:
        self.model = model
        self.preprocessing = preprocessing
        self._features = LatestValues[Features](MAX_FEATURES, lambda features: features.nbytes)

    def __call__(self, picture: Picture) -> Features:
        """The features of `picture`, computed if they are not in the cache."""
        return self._features.get(
            picture.digest, lambda: self.model.encode(self.pixels(picture), self.grid(picture))
        )

    def pixels(self, picture: Picture) -> Float32:
        """The pixel values of `picture` that the tower is given."""
        arrays = [self._image_preprocessing(picture).pixels(image) for image in picture.images]
        return np.stack(arrays) if picture.frames else arrays[0]

    def _image_preprocessing(self, picture: Picture) -> Preprocessing:
        """The preprocessing of each image of a picture."""
        return self.preprocessing.for_clip(picture.clip_place.frames)

    def grid(self, picture: Picture) -> Grid:
        """The visual positions of `picture`; computes no features.  Raises ImageError."""
        vision = self.model.config.vision
        assert vision
        size = self._image_preprocessing(picture).size(*picture.image.size)
        return vision.grid(*size, picture.clip_place.moment, picture.clip_place.step)

    def note(self, picture: Picture) -> str | None:
        """The note on a picture that a limit on tokens has made smaller."""
        if not self._image_preprocessing(picture).is_reduced(*picture.image.size):
            return None
        height, width = self._image_preprocessing(picture).size(*picture.image.size)
        unit = "tokens for two frames" if picture.frames else "tokens"
        return (
            f"{picture.name or 'an image'} is seen at {width} x {height} pixels, "
            f"{self.grid(picture).positions} {unit}; `max_image_tokens` allows more"
        )

    def forget(self) -> None:
        """Empty the cache, so that the next measurement includes computing features."""
        self._features.clear()

    def serves(self, model: Model, preprocessing: Preprocessing) -> bool:
        """True if `model` would compute the same features from the same images."""
        own = self.model.tower, self.preprocessing
        return bool(model.tower) and (model.tower, preprocessing) == own


STATES = 2 + MOST_BORDERS
"""The most states of a sequence: before and after the latest round, and at borders."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with its tokenizer, chat template and image features."""

    name: str
    directory: Path
    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    features: FeatureCache | None
    """The vision features of images; None for a text-only model."""

    @property
    def view(self) -> Branch:
        """The view in which this model sees a prompt as a target: M if it sees images, else T."""
        return Branch("T" if self.model.config.vision is None else "M")

    @property
    def stop(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.tokenizer.eos_ids | frozenset(self.model.config.eos_token_ids)

    @property
    def frames_as_images(self) -> int:
        """Frames of a clip that fit into about half of the positions, one at least."""
        config = self.model.config
        return max(round(config.text.max_position_embeddings / 2 / (config.image_tokens or 1)), 1)

    def clip_notes(self, turn: Turn) -> list[str]:
        """The note on a question's clips of which not all frames are shown."""
        if self.tokenizer.image_tokens.clip != "images":
            return []
        total = sum(len(clip.frames) for clip in turn.clips)
        pictures = turn.with_frames(self.frames_as_images).pictures
        count = len(pictures) - len(turn.pictures) + len(turn.clips)
        if count == total:
            return []
        return [f"{count} frames of {total} are shown; `max_frames` names another number"]

    @property
    def item_bytes(self) -> int:
        """Bytes of a number; of a backend's own type as of float32."""
        return ITEM_BYTES.get(self.model.dtype, ITEM_BYTES["float32"])

    def cache_bytes(self, positions: int) -> int:
        """Bytes of the keys and values of this many positions, and of recurrent layers' states."""
        text, width = self.model.config.text, self.item_bytes
        return cache_bytes(text, positions, width) + STATES * state_bytes(text, width)

    def chunks(self, conversation: Conversation, *, most: float = math.inf) -> list[Chunk]:
        """The conversation as chunks; see `render`.  CheckpointError for a token that it lacks."""
        if self.tokenizer.image_tokens.clip == "images":
            turns = [turn.with_frames(self.frames_as_images) for turn in conversation.turns]
            conversation = replace(conversation, turns=turns)
        chunks = render(conversation, self.template, self.tokenizer, most=most)
        size = self.model.config.text.vocab_size
        content = (entry for chunk in chunks for entry in chunk.content)
        largest = max((entry for entry in content if not isinstance(entry, Picture)), default=0)
        if largest >= size:
            raise CheckpointError(
                f"the tokenizer in {self.directory} writes token {largest}, and the model "
                f"has {size}: they are of two models"
            )
        return chunks

    def translate(self, conversation: Conversation) -> Conversation:
        """A conversation with its answers in this model's tokens."""
        turns = list[Turn]()
        for turn in conversation.turns:
            ids = answer_ids(turn.answer_text, self.template, self.tokenizer)
            text = self.tokenizer.decode(ids).removeprefix(" ")
            turns.append(replace(turn, answer=ids, answer_text=text))
        return replace(conversation, turns=turns)

    def require_sight(self, pictures: Sequence[Picture]) -> None:
        """Raise UsageError for images to a text-only model."""
        if pictures and self.features is None:
            raise UsageError(f"{self.name} is text-only and cannot see images")

    def require_own_answer(self, number: int, turn: Turn) -> None:
        """Raise UsageError unless answer `number` has ids of this model that give its text."""
        answer, size = turn.answer or (), self.model.config.text.vocab_size
        for token in answer:
            if not 0 <= token < size:
                raise UsageError(
                    f"answer {number} holds {token}, which is no token of {self.name}'s (0 to "
                    f"{size - 1}): the file was damaged, or comes from another model"
                )
        text = self.tokenizer.decode(answer).lstrip(" ")
        answer_text = turn.answer_text.lstrip(" ")
        # An interrupted answer may end within a character, a whole one with a stop token.
        if not (text.startswith(answer_text) or answer_text.startswith(text)):
            raise UsageError(
                f"answer {number} was written in other tokens than {self.name}'s:"
                " load the model that gave it first"
            )

    def room(self, length: int, least: int) -> int:
        """Positions left after `length`; raises ContextError if there are fewer than `least`."""
        positions = self.model.config.text.max_position_embeddings
        free = positions - length
        if free < least:
            raise ContextError(
                f"prompt and images take {length} positions and an answer needs {least}: "
                f"{self.name} has {positions}; use fewer images, a shorter prompt or a "
                "smaller `max_new_tokens`",
                least - free,
            )
        return free

    def views(self, caption: Callable[[Picture], Sequence[int]]) -> Views:
        """Converter of prompts to segments for this model; `caption` gives the ids of view C."""
        features = self.features
        grid = features.grid if features else _refuse_picture
        return Views(self.tokenizer.newline_id, features or _refuse_picture, grid, caption)


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head, which uses the tokenizer and images of its target."""

    name: str
    directory: Path | None
    """Where it was loaded from; None for an object that the caller gave."""
    head: Head

    @property
    def kind(self) -> str:
        """The head's kind, such as 'msd'; also the value of --drafting that selects it."""
        return self.head.config.kind


def untied_note(model: LoadedModel) -> str | None:
    """The note on a model whose output matrix is tied by config.json, but not in the files."""
    is_tied_in_config = read_config(model.directory).text.tie_word_embeddings
    if model.model.config.text.tie_word_embeddings or not is_tied_in_config:
        return None
    return f"{model.name}: its own output matrix is used, though config.json ties it"


def _refuse_picture(picture: Picture) -> Never:
    raise ValueError(f"a text-only model was shown {picture.name}")


def load_model(
    backend: Backend,
    name: str,
    directory: Path,
    *,
    device: str,
    dtype: str,
    quantize: str = "none",
    max_image_tokens: int | None = None,
    progress: Progress = silent,
    target_features: FeatureCache | None = None,
) -> LoadedModel:
    """Load a checkpoint directory.  progress: shows how much of a large one is read.

    max_image_tokens: positions of an image at most; None takes the family's own limit.
    target_features: the target's, used here too if this model would compute the same ones.
    """
    activity = f"loading {name}"
    progress(activity)
    model = backend.load(
        directory,
        device=device,
        dtype=dtype,
        quantize=quantize,
        progress=lambda bar: progress(f"{activity} {bar}"),
    )
    features = None
    if model.config.vision:
        preprocessing = model.config.vision.preprocessing(directory).with_limit(max_image_tokens)
        is_shared = target_features and target_features.serves(model, preprocessing)
        features = target_features if is_shared else FeatureCache(model, preprocessing)
    tokenizer = Tokenizer.read(directory, model.config.family.image_tokens)
    return LoadedModel(name, directory, model, tokenizer, load_template(directory), features)
