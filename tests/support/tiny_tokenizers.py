"""Small tokenizers of the two kinds that matter, built in memory and saved as checkpoints are."""

import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

from support import factory_layouts

SPECIAL = ["<unk>", "<s>", "</s>"]
TEXTS = [
    "USER: what is in the picture? ASSISTANT: a red circle and the blue square.",
    "USER: how many shapes are there? ASSISTANT: there are three shapes.",
    "the cat sat on the mat\nand the dog ran. it's über naïve",
    "A chat between a curious user and an assistant. What is this?",
] * 3


def byte_level(directory: Path) -> Path:
    """Like GPT-2's, with BOS put first by the post-processor."""
    tokenizer = factory_layouts.byte_level([*SPECIAL, "<image>", "<|im_end|>"], 420, TEXTS)
    factory_layouts.start_with_bos(tokenizer)
    return _saved(PreTrainedTokenizerFast(tokenizer_object=tokenizer), directory)


def llama(directory: Path, *, legacy: bool = False) -> Path:
    """Like Llama's as transformers saves it; `legacy` puts a space before every text."""
    pieces, merges = _pieces()
    tokenizer = LlamaTokenizer(vocab=pieces, merges=merges, legacy=legacy, add_bos_token=True)
    return _saved(tokenizer, directory)


def hub_llama(directory: Path) -> Path:
    """Like Llama's tokenizer.json on the hub: the space is prepended by a normalizer."""
    tokenizer = llama_as_on_the_hub(*_pieces())
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return _saved(PreTrainedTokenizerFast(tokenizer_object=tokenizer), directory)


def llama_as_on_the_hub(pieces: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """A tokenizer of these pieces that reads and writes as Llama's, without special tokens."""
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=merges, **options))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    factory_layouts.start_with_bos(tokenizer)
    return tokenizer


BUILDERS = {"byte-level": byte_level, "llama": llama, "hub-llama": hub_llama}


def _pieces() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Train sentencepiece-like merges, and number the tokens as sentencepiece does."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split(Regex("▁[^▁\n]*|\n"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=260, show_progress=False)
    trained.train_from_iterator([" " + text for text in TEXTS], trainer)
    model = json.loads(trained.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    letters = [piece for piece in learned if len(piece) == 1 and piece not in "\nü"]
    grown = [piece for piece in learned if len(piece) > 1 and "ü" not in piece]
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *grown, *letters]
    merges = [tuple(merge) for merge in model["merges"] if "ü" not in "".join(merge)]
    return {token: id for id, token in enumerate(tokens)}, merges


def _saved(tokenizer: PreTrainedTokenizerFast, directory: Path) -> Path:
    tokenizer.add_special_tokens(
        {"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": ["<image>"]}
    )
    tokenizer.save_pretrained(directory)
    return directory
