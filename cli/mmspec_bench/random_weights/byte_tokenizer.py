"""Writes a tokenizer of any size with one token per byte, for random models."""

import json
from pathlib import Path

SPECIAL = ("<unk>", "<s>", "</s>")


def write_tokenizer(directory: Path, image: int) -> None:
    """Write tokenizer.json and the config of its tokens; `<image>` is id `image`, `<pad>` the next.

    Ids between the bytes' and these have text, but no text is encoded to them.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE(vocab=_vocabulary(image), merges=[], unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*SPECIAL, "<image>", "<pad>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", SPECIAL.index("<s>"))]
    )
    text = tokenizer.to_str(pretty=True)
    (directory / "tokenizer.json").write_text(text, encoding="utf-8")
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    settings = names | {"image_token": "<image>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _vocabulary(size: int) -> dict[str, int]:
    from tokenizers import pre_tokenizers

    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    fillers = (f"<filler {number}>" for number in range(size - len(words)))
    return {token: id for id, token in enumerate([*words, *fillers])}
