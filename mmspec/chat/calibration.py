"""Finds the file with the costs that `mmspec calibrate` measured for loaded models."""

import hashlib
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.chat.models import Models
from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.paths import expand_home
from mmspec.draft_length.calibration_file import CalibrationFile

FORMAT = 3
"""Version of the calibration file's layout; files of other versions are ignored."""
WEIGHTS = (".safetensors", ".bin")


def calibration_file(models: Models) -> CalibrationFile:
    """The file of costs measured for `models`, named by a digest of all that they depend on."""
    target, drafts = models.target, models.drafts
    backend = {"name": models.backend.name, "mmspec": version("mmspec")}
    key = {
        "format": FORMAT,
        "machine": f"{platform.machine()} {_processor()} x{os.cpu_count()}",
        "device": target.model.device,
        "dtype": target.model.dtype,
        "quantize": target.model.quantize,
        "backend": backend | models.backend.describe(),
        "target": shape_digest(target.directory),
        "draft": _draft_digest(drafts) if drafts else None,
    }
    text = json.dumps(key, sort_keys=True)
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    return CalibrationFile(cache_directory() / "calibration" / name, json.loads(text))


def cache_directory() -> Path:
    """Directory for files that can be recomputed: $MMSPEC_CACHE, by default ~/.cache/mmspec."""
    if own := os.environ.get("MMSPEC_CACHE"):
        return Path(own)
    return expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mmspec"


def shape_digest(directory: Path) -> str:
    """Digest of a checkpoint's config and the sizes of its weights, on which its speed depends."""
    digest = hashlib.sha256((directory / CONFIG_FILE).read_bytes())
    for file in sorted(directory.iterdir()):
        if file.suffix in WEIGHTS:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()[:24]


def _draft_digest(drafts: LoadedModel | LoadedHead) -> str:
    return shape_digest(drafts.directory) if drafts.directory else drafts.name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
