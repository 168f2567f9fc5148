"""BLIP, BLIP-2 and Florence-2 as captioners, through transformers."""

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mmspec.checkpoints.config import model_type
from mmspec.ground.errors import CheckpointError, choice
from mmspec.prompt.images import Picture
from mmspec_torch.device.devices import find_device


class Kind(NamedTuple):
    """How captioners of one model type are asked for a caption of one sentence."""

    prompt: str | None = None
    """None: the model needs no prompt."""
    beams: int = 1
    tokens: int = 48
    """The maximum length of a caption, in tokens."""


KINDS = {"blip": Kind(), "blip-2": Kind(), "florence2": Kind("<CAPTION>", beams=3, tokens=1024)}
"""Kinds by model type; Florence-2 is asked as in IbED."""


class TransformersCaptioner:
    """Implements `mmspec.chat.captions.Captioner` with a checkpoint in a local directory.

    It runs only transformers' own classes, never a checkpoint's code, and reads only safetensors.
    """

    def __init__(self, directory: Path) -> None:
        """Read the model type of `directory`.  Raises UsageError for one that KINDS lacks.

        Imports transformers here, so that its absence shows before a caption is needed.
        """
        import transformers

        self._transformers: Any = transformers
        self._directory = directory
        kind = model_type(directory)
        if kind not in KINDS:
            raise choice("captioner type", kind, KINDS)
        self._kind = KINDS[kind]

    @torch.inference_mode()
    def caption(self, picture: Picture) -> str:
        """Return the likeliest caption that the kind's search finds, on one line."""
        (model, processor), kind = self._parts, self._kind
        inputs = processor(images=picture.image, text=kind.prompt, return_tensors="pt")
        search = {"do_sample": False, "num_beams": kind.beams, "max_new_tokens": kind.tokens}
        ids = model.generate(**inputs.to(model.device), **search)
        text: str = processor.batch_decode(ids, skip_special_tokens=True)[0]
        return " ".join(text.split())

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        """Model and processor, loaded for the first caption."""
        auto, model_type = self._transformers, self._transformers.AutoModelForImageTextToText
        local = {"local_files_only": True, "trust_remote_code": False}
        logs = self._transformers.logging  # whose bar would stand between a chat's own lines
        hook = logs.set_tqdm_hook(lambda _, values, names: logs.EmptyTqdm(*values, **names))
        try:
            processor = auto.AutoProcessor.from_pretrained(self._directory, **local)
            model = model_type.from_pretrained(self._directory, use_safetensors=True, **local)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{self._directory} is no captioner: {reason}") from error
        finally:
            logs.set_tqdm_hook(hook)
        return model.to(find_device("auto")).eval(), processor
