"""Both backends name the same things alike, so that they can be read side by side."""

from pathlib import Path

BACKENDS = Path(__file__).parent.parent / "backends"

TORCH_ALONE = {
    "graphs": "CUDA graphs; MLX has none",
    "device/cuda_graphs.py": "their captures",
    "sequence/replayed.py": "the sequences that replay them",
    "captioner.py": "captioners that transformers runs",
    "device/openmp.py": "only OpenMP can be told how long its threads wait for each other",
    "device/tensor_files.py": "training writes PyTorch's tensors",
    "heads/convert.py": "published heads are PyTorch pickles",
}
MLX_ALONE = {
    "save_quantized.py": "quantized checkpoints are written in MLX's format",
    "device/blas.py": "MLX's Linux build carries the reference BLAS",
    "device/kernels.py": "MLX's fused calls are lists of operations on a CPU",
}
"""What one backend has alone, and why."""


def names(package: str, alone: dict[str, str]) -> set[str]:
    """The files of a backend that the other must have too."""
    root = BACKENDS / package
    files = {file.relative_to(root) for file in root.rglob("*.py")}
    found = {name for name in alone if (root / name).exists()}
    assert found == set(alone), "a difference that is none any more"
    return {str(f) for f in files if str(f) not in alone and f.parts[0] not in alone}


def test_the_same_things_have_the_same_file_names():
    assert names("mmspec_torch", TORCH_ALONE) == names("mmspec_mlx", MLX_ALONE)
