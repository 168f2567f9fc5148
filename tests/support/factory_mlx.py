"""MLX conversions of tiny checkpoints, as mlx-vlm and mlx-lm write them."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.factory_layouts import write_json


def quantized(
    source: Path,
    path: Path,
    bits: int = 4,
    group_size: int = 64,
    *,
    vision: bool = True,
    bare: bool = False,
    own: Mapping[str, int] | None = None,
) -> Path:
    """Convert the checkpoint `source` as mlx-vlm and mlx-lm do; returns `path`.

    `own`: bits of layers whose paths end so, in groups of 32. `vision` quantizes the tower too, as
    conversions of 2024 did. `bare` leaves out chat template and processor files,
    which those had not. `bits` 0 converts without quantizing.
    """
    import mlx.core as mx

    path.mkdir(parents=True)
    weights: dict[str, mx.array] = {}
    by_path: dict[str, dict[str, int]] = {}
    for name, weight in _mlx_weights(source).items():
        skipped = not vision and name.startswith("vision_tower.")
        divides = weight.ndim == 2 and weight.shape[1] % group_size == 0
        if not bits or skipped or not divides:
            weights[name] = weight
            continue
        stem = name.removesuffix("weight")
        settings = {"group_size": group_size, "bits": bits}
        for end, width in (own or {}).items():
            if stem[:-1].endswith(end):
                by_path[stem[:-1]] = settings = {"group_size": 32, "bits": width}
        parts = mx.quantize(weight, **settings)
        weights |= zip([name, f"{stem}scales", f"{stem}biases"], parts, strict=True)
    mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
    _copy_side_files(source, path, bare)
    if bits:
        config = json.loads((path / "config.json").read_text())
        config["quantization"] = {"group_size": group_size, "bits": bits} | by_path
        (path / "config.json").write_text(json.dumps(config))
    return path


def dequantized(packed: Path, path: Path) -> Path:
    """Write to `path` the checkpoint that a quantized one stands for, in float32."""
    import mlx.core as mx

    path.mkdir()
    config = json.loads((packed / "config.json").read_text())
    by_path = config.pop("quantization")
    weights = mx.load(str(packed / "model.safetensors"))
    whole = {}
    for name, array in weights.items():
        stem = name.removesuffix("weight")
        if name.endswith((".scales", ".biases")):
            continue
        if f"{stem}scales" in weights:
            parts = (weights[f"{stem}{part}"].astype(mx.float32) for part in ("scales", "biases"))
            own = by_path.get(stem[:-1], by_path)
            array = mx.dequantize(array, *parts, group_size=own["group_size"], bits=own["bits"])
        whole[name] = array.astype(mx.float32)
    mx.save_safetensors(str(path / "model.safetensors"), whole, metadata={"format": "mlx"})
    (path / "config.json").write_text(json.dumps(config))
    return path


def _mlx_weights(source: Path) -> dict[str, Any]:
    """Read `source` as mlx-vlm has it: no buffers, channels last, Qwen3.5's norms as a whole."""
    import mlx.core as mx

    kind, weights = json.loads((source / "config.json").read_text())["model_type"], {}
    for file in sorted(source.glob("*.safetensors")):
        for name, weight in mx.load(str(file)).items():
            if name.endswith(("position_ids", "inv_freq")):
                continue
            name = _qwen_name(name) if "qwen" in kind else _llava_name(name)
            if weight.ndim > 2:
                weight = weight.transpose(0, *range(2, weight.ndim), 1)
            apart = any(part in name for part in ("linear_attn", "vision"))
            if "qwen3_5" in kind and name.endswith("norm.weight") and not apart:
                weight = weight + 1
            weights[name] = weight
    return weights


def _qwen_name(name: str) -> str:
    name = name.replace("model.language_model.", "model.")
    name = name.removeprefix("model.") if "visual." in name else name
    name = name.replace("visual.", "vision_tower.")
    return f"language_model.{name}" if name.startswith(("model.", "lm_head.")) else name


def _llava_name(name: str) -> str:
    if "vision_model." in name:
        return name
    return name.replace("vision_tower.", "vision_tower.vision_model.", 1)


def _copy_side_files(source: Path, path: Path, bare: bool) -> None:
    left_out = {"model.safetensors.index.json"}
    if bare:
        left_out |= {"preprocessor_config.json", "processor_config.json"}
        left_out |= {"chat_template.json", "chat_template.jinja"}
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja") and file.name not in left_out:
            shutil.copy(file, path)
    if bare:
        tokenizer = json.loads((path / "tokenizer_config.json").read_text())
        del tokenizer["chat_template"]
        write_json(path / "tokenizer_config.json", tokenizer)
