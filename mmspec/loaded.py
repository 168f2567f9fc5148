"""A checkpoint in memory with everything needed to talk to it."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmspec.drafting import Branch, Views
from mmspec.images import Picture, Preprocessing, pixels, read_preprocessing
from mmspec.seam import Backend, Features, Head, Model
from mmspec.template import ChatTemplate, load_template
from mmspec.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_IMAGES = 32
"""Images whose features stay on the device; LLaVA-1.5's take 1.2 MB each in 16 bits."""


class FeatureCache:
    """Vision features by image content, the least recently used forgotten first."""

    def __init__(self, model: Model, preprocessing: Preprocessing) -> None:
        """Compute with `model`'s tower on pixels made as `preprocessing` says."""
        self.model = model
        self.preprocessing = preprocessing
        self._kept: OrderedDict[str, Features] = OrderedDict()

    def __call__(self, picture: Picture) -> Features:
        """The features of one image, computed at most once while they are kept."""
        if picture.digest not in self._kept:
            self._kept[picture.digest] = self.model.encode(pixels(picture, self.preprocessing))
            if len(self._kept) > KEPT_IMAGES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(picture.digest)
        return self._kept[picture.digest]

    def forget(self) -> None:
        """Compute all anew, as a measurement wants that must not profit from the one before."""
        self._kept.clear()

    def serves(self, model: Model, preprocessing: Preprocessing) -> bool:
        """Whether another model would compute the same features: equal tower, layer and pixels."""
        return bool(model.tower) and (model.tower, preprocessing) == (
            self.model.tower,
            self.preprocessing,
        )


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with its tokenizer, chat template and image features."""

    name: str
    directory: Path
    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    features: FeatureCache | None
    """None for a text-only model."""

    @property
    def view(self) -> Branch:
        """How the model itself is shown a prompt."""
        sees = self.model.config.vision is not None
        return Branch("M", self.model.config.image_tokens) if sees else Branch("T")

    def views(self, caption: "Callable[[Picture], Sequence[int]]") -> Views:
        """Views of a prompt for this model."""
        features = self.features or _blind
        image_token_id = self.model.config.image_token_id
        return Views(
            -1 if image_token_id is None else image_token_id,
            self.tokenizer.newline_id,
            features,
            caption,
        )


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head for the target loaded beside it, whose tokenizer and images it shares."""

    name: str
    directory: Path
    head: Head

    @property
    def kind(self) -> str:
        """The drafting that it does."""
        return self.head.config.kind


def _blind(picture: Picture) -> Features:
    raise ValueError(f"a text-only model was shown {picture.name}")


def load_model(
    backend: Backend,
    name: str,
    directory: Path,
    *,
    device: str,
    dtype: str,
    quantize: str = "none",
    sharing: FeatureCache | None = None,
) -> LoadedModel:
    """Load a checkpoint directory.

    sharing: another model's features, taken over where they would be the same.
    """
    model = backend.load(directory, device=device, dtype=dtype, quantize=quantize)
    features = None
    if model.config.vision:
        preprocessing = read_preprocessing(directory, model.config.vision.image_size)
        shared = sharing and sharing.serves(model, preprocessing)
        features = sharing if shared else FeatureCache(model, preprocessing)
    return LoadedModel(
        name, directory, model, Tokenizer.read(directory), load_template(directory), features
    )
