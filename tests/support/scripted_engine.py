"""An engine on the host: scripted models behind real tokenizers, templates, views and sessions.

Turns of its chats are compared with plain decoding from nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.chat.loaded_model import FeatureCache, LoadedModel
from mmspec.chat.options import Options
from mmspec.checkpoints.config import ModelConfig
from mmspec.draft_length.calibration_file import Calibration
from mmspec.families.clip_images import ClipImages
from mmspec.families.decoder import TextConfig
from mmspec.families.known import FAMILIES
from mmspec.families.llava import LlavaVision
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.conversation import Conversation
from mmspec.prompt.images import Picture, picture_from
from mmspec.prompt.tokenizer import Tokenizer
from support import factory_layouts
from support.scripted import ScriptedBranches, ScriptedFeatures, ScriptedTarget, no_fault

SEES = ModelConfig(
    family=FAMILIES["llava"],
    text=TextConfig(8, 8, 1, 1, 1, 8, factory_layouts.TOKENIZER_SIZE, 600, 1e-5, 1e4, False),
    vision=LlavaVision(8, 8, 1, 1, image_size=16, patch_size=4),
    image_token_id=factory_layouts.TOKENIZER_SIZE,  # never generated: past the vocabulary
    quantization=None,
    eos_token_ids=(2,),
    dtype="float32",
)
"""A LLaVA of 16 positions per image, pooled to 4 or 1, and 600 positions in all."""

BLIND = replace(SEES, family=FAMILIES["llama"], vision=None, image_token_id=None)


def with_positions(config: ModelConfig, positions: int) -> ModelConfig:
    """The same model trained for another length."""
    return replace(config, text=replace(config.text, max_position_embeddings=positions))


@dataclass
class ScriptedModel:
    """Opens scripted sequences and remembers them."""

    config: ModelConfig = SEES
    tower: str = "tower"
    device: str = "host"
    dtype: str = "float32"
    quantize: str = "none"
    setup_seconds: float = 0.0
    fault: Callable[[str], None] = no_fault
    encoded: int = 0
    branches: list[ScriptedBranches] = field(default_factory=list)

    def encode(self, pixels: np.ndarray, grid: Any = None) -> ScriptedFeatures:
        self.fault("model.encode")
        self.encoded += 1
        return ScriptedFeatures(str(float(pixels.sum())), self.config.image_tokens)

    def open_target(self, sampling: Any, exact: Any = None) -> ScriptedTarget:
        self.fault("model.open_target")
        return ScriptedTarget(**self._common(sampling))

    def open_branches(
        self, count: int, vocabulary: int, sampling: Any, tree: Any = None, **options: Any
    ) -> ScriptedBranches:
        self.fault("model.open_branches")
        self.branches.append(
            ScriptedBranches(count, tree=tree, **options, **self._common(sampling))
        )
        return self.branches[-1]

    def _common(self, sampling: Any) -> dict[str, Any]:
        vocabulary = self.config.text.vocab_size
        return {"sampling": sampling, "fault": self.fault, "vocabulary": vocabulary}


class Namer:
    """A captioner that counts its work; captions differ in length by picture."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def caption(self, picture: Picture) -> str:
        self.asked.append(picture.digest)
        return "a red square " * (1 + int(picture.digest[0], 16) % 3)


def backend() -> Any:
    """As much of a backend as a chat needs."""
    nothing = dict.fromkeys(("synchronize", "reset_peak_memory"), lambda: None)
    return SimpleNamespace(name="scripted", peak_memory=lambda: 1, describe=dict, **nothing)


def loaded(model: ScriptedModel, directory: Path) -> LoadedModel:
    """`model` with the tokenizer in `directory` and LLaVA-1.5's template."""
    features = FeatureCache(model, ClipImages(16, (16, 16))) if model.config.vision else None
    tokenizer = Tokenizer.read(directory)
    return LoadedModel("scripted", directory, model, tokenizer, ChatTemplate(), features)


def scripted_engine(
    directory: Path, target: ModelConfig = SEES, draft: ModelConfig | None = SEES
) -> Engine:
    """A target and a draft that knows the target's rule except at every third place."""
    drafts = loaded(ScriptedModel(draft), directory) if draft else None
    opened = loaded(ScriptedModel(target), directory)
    nothing = {None: Calibration()}
    return Engine(
        backend(), opened, drafts, Namer(), calibrations=nothing, exactness={"auto": None}
    )


def picture(seed: int) -> Picture:
    """A picture of one colour each."""
    return picture_from(Image.new("RGB", (16, 16), (37 * seed % 256, 11 * seed, 90)), f"p{seed}")


A, B = picture(1), picture(2)
OPTIONS = Options(max_new_tokens=8, gamma=3)


def asked(chat, text, *images):
    return chat.reply(text, images).token_ids


def cold(chat, text, *images):
    """What a new chat without a draft says after the same turns."""
    plain = replace(chat.options, drafting="none", weights=())
    past = Conversation(chat.conversation.system, list(chat.conversation.turns))
    return asked(chat.models.chat(plain, past), text, *images)


def check(chat, text, *images):
    expected = cold(chat, text, *images)
    assert asked(chat, text, *images) == expected
