"""Finds the files with what was measured for loaded models on this machine."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Container, Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.checkpoints.config import CONFIG_FILE
from mmspec.checkpoints.quantization import number_type
from mmspec.decoding.contract import Backend
from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.calibration_file import Calibration
from mmspec.exactness.finding import Finding, FindingFile
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import expand_home
from mmspec.ground.measurement_file import M, MeasurementFile, read_measurement

FORMAT = 6
"""Version of the files and of the forwards that they measure; files of others are ignored."""
EXACTNESS = "exactness"
"""Folder of the files about exact decoding."""
WEIGHTS = (".safetensors", ".bin")
SAMPLES, SAMPLE_BYTES = 64, 4096
"""Number and size of the parts of a file of weights whose content a finding depends on."""
CalibrationFile = MeasurementFile[Calibration]
"""The file of costs of one machine, device, backend, dtype and pair of models."""
THREADS = ("threads", "blas_threads")
"""Fields of a backend's description that change from one process to the next."""


def calibration_file(
    backend: Backend,
    target: LoadedModel,
    drafts: LoadedModel | LoadedHead | None,
    exact: ExactRows | None,
) -> CalibrationFile:
    """The file of costs measured for a pair, named by a digest of all that they depend on.

    exact: the rows with which the target decodes; None for ordinary forwards.
    """
    digest = drafts and (shape_digest(drafts.directory) if drafts.directory else drafts.name)
    draft = {"draft": digest}
    if isinstance(drafts, LoadedModel) and drafts.model.quantize != target.model.quantize:
        draft |= {"draft_quantize": drafts.model.quantize}
    rows = {"exact_rows": exact and asdict(exact)}
    return _file("calibration", Calibration, _target_key(backend, target) | draft | rows)


def read_calibration(file: CalibrationFile) -> tuple[Calibration, str]:
    """The calibration, empty if there is none, and a note if the file is unusable, else ''."""
    try:
        return file.read() or Calibration(), ""
    except CheckpointError as error:
        return Calibration(), f"calibration not used ({error}): run `mmspec calibrate`"


def finding_file(backend: Backend, target: LoadedModel) -> FindingFile:
    """The file of what is known of the target's exact decoding."""
    model = {
        "name": target.name,
        "directory": str(target.directory.resolve()),
        "weights": content_digest(target.directory),
    }
    return _file(EXACTNESS, Finding, _target_key(backend, target) | model)


def finding_lines(backends: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """A line on the exact decoding of each model, type and device that was measured here.

    backends: what each installed backend says of itself; what was measured on another machine or
    with other versions is left out.
    """
    lines: dict[str, str] = {}
    for path in sorted((cache_directory() / EXACTNESS).glob("*.json")):
        try:
            key, finding = read_measurement(path, Finding)
        except CheckpointError:
            continue
        match key:
            case {"machine": machine, "backend": {"name": str(name)} as then}:
                now = backends.get(name, {}) | {"name": name, "mmspec": version("mmspec")}
                if machine == _machine() and _without_threads(then) == _without_threads(now):
                    lines[_label(key, now, lines)] = finding.line()
    return lines


def threads_of(description: Mapping[str, Any]) -> int | None:
    """The number of CPU threads in a backend's description; None if it names none."""
    return next((description[name] for name in THREADS if name in description), None)


def _without_threads(description: Mapping[str, Any]) -> dict[str, Any]:
    """A backend's description as JSON holds it, without the threads of the process."""
    values: dict[str, Any] = json.loads(json.dumps(description))
    return {name: value for name, value in values.items() if name not in THREADS}


def _label(key: Mapping[str, Any], now: Mapping[str, Any], labels: Container[str]) -> str:
    """A name for what was measured, none of `labels`; now: the backend's description today."""
    backend = key["backend"]
    kind = number_type(key["dtype"], key["quantize"])
    label = f"{key['name']}, {kind}, {backend['name']} on {key['device']}"
    threads = threads_of(backend)
    if threads is not None and threads != threads_of(now):
        label += f", {threads} thread{'s' * (threads != 1)}"
    return f"{label} ({key['directory']})" if label in labels else label


def _target_key(backend: Backend, target: LoadedModel) -> dict[str, Any]:
    """All that the bits and the speed of a target's forwards depend on."""
    names = {"name": backend.name, "mmspec": version("mmspec")}
    return {
        "format": FORMAT,
        "machine": _machine(),
        "device": target.model.device,
        "dtype": target.model.dtype,
        "quantize": target.model.quantize,
        "backend": names | backend.describe(),
        "target": shape_digest(target.directory),
    }


def _file(folder: str, kind: type[M], key: Mapping[str, Any]) -> MeasurementFile[M]:
    """The file in `folder` for a measurement with a key."""
    text = json.dumps(key, sort_keys=True)
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    return MeasurementFile(cache_directory() / folder / name, kind, json.loads(text))


def cache_directory() -> Path:
    """Directory for files that can be recomputed: $MMSPEC_CACHE, by default ~/.cache/mmspec."""
    if directory := os.environ.get("MMSPEC_CACHE"):
        return Path(directory)
    return expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mmspec"


def shape_digest(directory: Path) -> str:
    """Digest of a checkpoint's config and the sizes of its weights, on which its speed depends."""
    digest = hashlib.sha256((directory / CONFIG_FILE).read_bytes())
    for file in sorted(directory.iterdir()):
        if file.suffix in WEIGHTS:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()[:24]


def content_digest(directory: Path) -> str:
    """Digest of samples of a checkpoint's weights: other weights have another one."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.suffix in WEIGHTS:
            size = path.stat().st_size
            with path.open("rb") as file:
                for place in range(0, size, max(size // SAMPLES, SAMPLE_BYTES)):
                    file.seek(place)
                    digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:24]


def _machine() -> str:
    return f"{platform.machine()} {_processor()} x{os.cpu_count()}"


@cache
def _processor() -> str:
    if sys.platform == "darwin":  # where `platform` says arm of every chip
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        chip = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return chip.strip() or platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
