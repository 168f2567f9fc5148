"""Transformers' own processor and generate for Qwen, built from files without a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

from mmspec.prompt.conversation import Chunk
from mmspec.prompt.images import Picture
from support.factory_qwen import CHAT_TEMPLATE, IMAGE_ID


class ImagesAlone:
    """A processor without its video part, which needs torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        if argument_name != "video_processor":
            return super().check_argument_for_proper_class(argument_name, argument)  # type: ignore[misc]
        return None


class Qwen3Images(ImagesAlone, Qwen3VLProcessor):
    """Qwen3-VL's."""


class Qwen25Images(ImagesAlone, Qwen2_5_VLProcessor):
    """Qwen2.5-VL's."""


PROCESSORS = {"qwen3_vl": Qwen3Images, "qwen2_5_vl": Qwen25Images}


def processor(path: Path, kind: str) -> Any:
    """The processor of a directory with a tokenizer and settings; kind: a `model_type`."""
    images = Qwen2VLImageProcessorPil.from_pretrained(path)
    return PROCESSORS[kind](images, AutoTokenizer.from_pretrained(path), None, CHAT_TEMPLATE)


class Oracle:
    """A checkpoint as transformers runs it."""

    def __init__(self, path: Path) -> None:
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32)
        self.model.eval()
        self.images = Qwen2VLImageProcessorPil.from_pretrained(path)

    def features(self, image: Image.Image) -> Any:
        """What the tower computes of an image [N, W]: embeddings, then DeepStack's features."""
        with torch.no_grad():
            found = self.model.model.get_image_features(**self.images(image, return_tensors="pt"))
        extra = getattr(found, "deepstack_features", None) or ()
        return torch.cat([*found.pooler_output, *(each[0] for each in extra)], dim=1).numpy()

    def generated(self, chunks: Sequence[Chunk], count: int) -> list[int]:
        """What generate says after the ids and pictures of a prompt's chunks."""
        parts = [part for chunk in chunks for part in chunk.parts]
        pictures = [part.image for part in parts if isinstance(part, Picture)]
        seen = self.images(pictures, return_tensors="pt") if pictures else {}
        grids = iter(seen["image_grid_thw"].prod(-1) // 4 if pictures else ())
        ids: list[int] = []
        for part in parts:
            ids += [IMAGE_ID] * int(next(grids)) if isinstance(part, Picture) else part
        rows = torch.tensor([ids])
        # Generated ids are fed as text, whatever they are.
        kinds = {"mm_token_type_ids": (rows == IMAGE_ID).int()} if pictures else {}
        return _generate(self.model, rows, count, **seen, **kinds)


def generated_text(path: Path, chunks: Sequence[Chunk], count: int) -> list[int]:
    """What generate of a text model says after a prompt's chunks."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    ids = [token for chunk in chunks for part in chunk.parts for token in part]
    return _generate(model, torch.tensor([ids]), count)


def _generate(model: Any, rows: torch.Tensor, count: int, **inputs: Any) -> list[int]:
    said = model.generate(
        input_ids=rows,
        attention_mask=torch.ones_like(rows),
        do_sample=False,
        max_new_tokens=count,
        pad_token_id=0,
        **inputs,
    )
    return said[0, rows.shape[1] :].tolist()
