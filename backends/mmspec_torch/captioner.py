"""BLIP, BLIP-2 and Florence-2 as captioners, through transformers."""

from functools import cached_property
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import model_type
from mmspec.ground.errors import CheckpointError, choice
from mmspec.prompt.images import Picture
from mmspec_torch.device.devices import find_device
from mmspec_torch.device.framework import Inference

SHORT = {"num_beams": 1, "max_new_tokens": 48}
KINDS: dict[str, tuple[str | None, dict[str, int]]] = {
    "blip": (None, SHORT),
    "blip-2": (None, SHORT),
    "florence2": ("<CAPTION>", {"num_beams": 3, "max_new_tokens": 1024}),
}
"""A prompt, if one is needed, and a search by model type; Florence-2's are those of IbED."""


class TransformersCaptioner:
    """Implements `mmspec.chat.captions.Captioner` with a checkpoint in a local directory.

    It runs only transformers' own classes, never a checkpoint's code, and reads only safetensors.
    """

    def __init__(self, directory: Path, device: str) -> None:
        """Read the model type of `directory`.  Raises UsageError for one that KINDS lacks.

        Imports transformers here, so that its absence shows before a caption is needed.
        """
        import transformers

        self._transformers: Any = transformers
        self._directory, self._device = directory, find_device(device)
        kind = model_type(directory)
        if kind not in KINDS:
            raise choice("captioner type", kind, KINDS)
        self._kind = KINDS[kind]

    @Inference()
    def caption(self, picture: Picture) -> str:
        """Return the likeliest caption that the kind's search finds, on one line."""
        (model, processor), (prompt, search) = self._parts, self._kind
        inputs = processor(images=picture.image, text=prompt, return_tensors="pt")
        ids = model.generate(**inputs.to(model.device), do_sample=False, **search)
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
        return model.to(self._device).eval(), processor
