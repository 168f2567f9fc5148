"""BLIP, BLIP-2 and Florence-2 as captioners, through transformers."""

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from mmspec.checkpoints.config import model_type
from mmspec.errors import CheckpointError, choice
from mmspec.prompt.images import Picture
from mmspec_torch.device import find_device

PROMPTS = {"blip": None, "blip-2": None, "florence2": "<CAPTION>"}
"""Prompt for a caption of one sentence, by model type; None: the model needs no prompt."""
CLASSES = {
    "blip": "BlipForConditionalGeneration",
    "blip-2": "Blip2ForConditionalGeneration",
    "florence2": "Florence2ForConditionalGeneration",
}
"""Name of transformers' class by model type."""
MAX_TOKENS = 48
"""The maximum length of a caption, in tokens."""


class TransformersCaptioner:
    """Implements `mmspec.chat.captions.Captioner` with a checkpoint in a local directory.

    It runs only transformers' own classes, never a checkpoint's code, and reads only safetensors.
    """

    def __init__(self, directory: Path) -> None:
        """Read the model type of `directory`.  Raises UsageError for one that PROMPTS lacks.

        Imports transformers here, so that its absence shows before a caption is needed.
        """
        import transformers

        self._transformers: Any = transformers
        self._directory = directory
        self._kind = model_type(directory)
        if self._kind not in PROMPTS:
            raise choice("captioner type", self._kind, PROMPTS)

    @torch.inference_mode()
    def caption(self, picture: Picture) -> str:
        """Return the greedy caption, on one line."""
        model, processor = self._loaded
        prompt = PROMPTS[self._kind]
        inputs = processor(images=picture.image, text=prompt, return_tensors="pt").to(model.device)
        ids = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=MAX_TOKENS)
        text: str = processor.batch_decode(ids, skip_special_tokens=True)[0]
        return " ".join(text.split())

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Model and processor, loaded for the first caption."""
        reader = self._transformers.AutoProcessor
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            processor = reader.from_pretrained(self._directory, **local)
            kind = getattr(self._transformers, CLASSES[self._kind])
            model = kind.from_pretrained(self._directory, use_safetensors=True, **local)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{self._directory} is no captioner: {reason}") from error
        return model.to(find_device("auto")).eval(), processor
