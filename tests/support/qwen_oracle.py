"""Transformers' own processor and generate for Qwen, built from files without a network."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer
from transformers.image_processing_backends import TorchvisionBackend
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

from mmspec.prompt.chunks import Chunk
from mmspec.prompt.clips import Clip
from mmspec.prompt.images import Picture
from support.factory_qwen import CHAT_TEMPLATE, IMAGE_ID
from support.transformers_oracle import Columns, generated, read_columns, transformers_model


def _qwen2_videos() -> type:
    """Transformers' class, whose module imports torchvision, of which `Pillow` leaves nothing."""
    parts = ["torchvision", "transforms", "v2", "functional"]
    names = [".".join(parts[:count]) for count in range(1, 5)]
    missing = {name: ModuleType(name) for name in names if name not in sys.modules}
    sys.modules.update(missing)
    try:
        module = import_module("transformers.models.qwen2_vl.video_processing_qwen2_vl")
    finally:
        for name in missing:
            del sys.modules[name]
    return module.Qwen2VLVideoProcessor


class Pillow(TorchvisionBackend):
    """What torchvision does for a video processor, which is not installed: by Pillow and torch."""

    def resize(self, image: torch.Tensor, size: Any, resample: Any = None, **_: Any) -> Any:
        frames = image.reshape(-1, *image.shape[-3:]).permute(0, 2, 3, 1).numpy()
        sides = size.width, size.height
        resized = [Image.fromarray(frame).resize(sides, resample) for frame in frames]
        stacked = torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2)
        return stacked.reshape(*image.shape[:-2], size.height, size.width)

    def normalize(self, image: torch.Tensor, mean: Any, std: Any, **_: Any) -> torch.Tensor:
        centre, spread = (torch.as_tensor(each)[:, None, None] for each in (mean, std))
        return (image - centre) / spread

    def convert_to_rgb(self, video: torch.Tensor) -> torch.Tensor:
        return video


class Qwen3Videos(Qwen3VLVideoProcessor, Pillow):
    """Qwen3-VL's."""

    convert_to_rgb = Pillow.convert_to_rgb


class Qwen2Videos(_qwen2_videos(), Pillow):  # type: ignore[misc]
    """Qwen2.5-VL's."""

    convert_to_rgb = Pillow.convert_to_rgb


class AnyVideos:
    """A processor that takes such a video part."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        if argument_name != "video_processor":
            return super().check_argument_for_proper_class(argument_name, argument)  # type: ignore[misc]
        return None


class Qwen3(AnyVideos, Qwen3VLProcessor):
    """Qwen3-VL's."""


class Qwen25(AnyVideos, Qwen2_5_VLProcessor):
    """Qwen2.5-VL's."""


PROCESSORS = {
    "qwen3_vl": (Qwen3, Qwen3Videos),
    "qwen2_5_vl": (Qwen25, Qwen2Videos),
    "qwen3_5": (Qwen3, Qwen3Videos),
}


def processor(path: Path, kind: str, template: str = CHAT_TEMPLATE) -> Any:
    """The processor of a directory with a tokenizer and settings; kind: a `model_type`."""
    whole, videos = PROCESSORS[kind]
    images = Qwen2VLImageProcessorPil.from_pretrained(path)
    tokenizer, video = AutoTokenizer.from_pretrained(path), videos.from_pretrained(path)
    return whole(images, tokenizer, video, template)


def patches(pixels: np.ndarray, config: Any) -> np.ndarray:
    """Pixel values [any, 3, height, width] in the processor's form: a row for each patch."""
    size, merge, frames = config.patch_size, config.spatial_merge_size, config.temporal_patch_size
    rows, columns = (side // size // merge for side in pixels.shape[-2:])
    cut = pixels.reshape(-1, 3, rows, merge, size, columns, merge, size)
    cut = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7)
    return np.repeat(cut, frames // cut.shape[5], axis=5).reshape(rows * columns * merge**2, -1)


def shown(clip: Clip) -> dict[str, Any]:
    """A clip as a processor takes it, its frames chosen."""
    return {
        "videos": [np.stack([np.asarray(frame.image) for frame in clip.frames])],
        "video_metadata": [
            {"total_num_frames": clip.total, "fps": clip.rate, "frames_indices": [*clip.numbers]}
        ],
        "do_sample_frames": False,
        "cap_pixels_per_frame": False,
    }


class Oracle:
    """A checkpoint as transformers runs it."""

    def __init__(self, path: Path) -> None:
        self.model = transformers_model(path)
        self.images = Qwen2VLImageProcessorPil.from_pretrained(path)
        self.processor = processor(path, self.model.config.model_type)

    def columns(self, tokens: Sequence[int], pictures: Sequence[Any]) -> Columns:
        """What every layer reads of a prompt, and its positions."""
        if not pictures:
            return read_columns(self.model, tokens)
        kinds = torch.tensor([[int(token == IMAGE_ID) for token in tokens]])
        seen = self.images(pictures, return_tensors="pt")
        return read_columns(self.model, tokens, mm_token_type_ids=kinds, **seen)

    def features(self, image: Image.Image) -> Any:
        """What the tower computes of an image [N, W]: embeddings, then DeepStack's features."""
        with torch.no_grad():
            found = self.model.model.get_image_features(**self.images(image, return_tensors="pt"))
        return _joined(found)

    def clip_features(self, clip: Clip) -> Any:
        """What the tower computes of a clip [N, W]: embeddings, then DeepStack's features."""
        seen = self._clips([clip])
        pixels, grids = seen["pixel_values_videos"], seen["video_grid_thw"]
        with torch.no_grad():
            found = self.model.model.get_video_features(pixels, grids)
        return _joined(found)

    def generated(
        self, chunks: Sequence[Chunk], count: int, clips: Sequence[Clip] = ()
    ) -> list[int]:
        """What generate says after the ids and pictures of a prompt's chunks.

        clips: those whose moments are among the pictures, in order.
        """
        parts = [part for chunk in chunks for part in chunk.parts]
        pictures = [part for part in parts if isinstance(part, Picture)]
        images = [part.image for part in pictures if not part.frames]
        seen = dict(self.images(images, return_tensors="pt")) if images else {}
        seen |= self._clips(clips) if clips else {}
        shown, moments = (
            iter([rows * columns // 4 for time, rows, columns in grids for _ in range(time)])
            for grids in (seen.get("image_grid_thw", ()), seen.get("video_grid_thw", ()))
        )
        ids, kinds = list[int](), list[int]()
        for part in parts:
            if isinstance(part, Picture) and part.frames:
                run, kind = [IMAGE_ID + 1] * int(next(moments)), 2
            elif isinstance(part, Picture):
                run, kind = [IMAGE_ID] * int(next(shown)), 1
            else:  # generated ids are fed as text, whatever they are
                run, kind = list(part), 0
            ids += run
            kinds += [kind] * len(run)
        if pictures:
            seen["mm_token_type_ids"] = torch.tensor([kinds])
        return generated(self.model, ids, count, stops=True, **seen)

    def _clips(self, clips: Sequence[Clip]) -> dict[str, Any]:
        each = [
            self.processor._process_videos(
                **shown(clip), return_metadata=True, return_tensors="pt"
            )[0]
            for clip in clips
        ]
        joined = {
            name: torch.cat([seen[name] for seen in each])
            for name in ("pixel_values_videos", "video_grid_thw")
        }
        if "second_per_grid_ts" in each[0]:
            steps = [step for seen in each for step in seen["second_per_grid_ts"]]
            joined["second_per_grid_ts"] = torch.tensor(steps)
        return joined


def _joined(found: Any) -> Any:
    """A tower's outputs side by side [N, W]: embeddings, then DeepStack's features."""
    extra = getattr(found, "deepstack_features", None) or ()
    return torch.cat([*found.pooler_output, *(each[0] for each in extra)], dim=1).numpy()
