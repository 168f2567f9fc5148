"""A small byte-level BPE tokenizer, trained on the world's own sentences."""

import re
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

BOS, EOS, PAD, IMAGE = SPECIALS = ("<s>", "</s>", "<pad>", "<image>")
NEWLINE = "\N{LATIN CAPITAL LETTER C WITH DOT ABOVE}"
"""The newline as byte-level vocabularies spell it."""
ALONE = r"[0-9]|[A-Z](?![a-z])"
"""Pattern of characters that are always tokens of their own: digits, capitals in acronyms."""
ROLES = ("USER:", "ASSISTANT:")


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a tokenizer of at most `vocabulary` tokens; the same texts give the same tokenizer.

    Encoding adds no `<s>`: the chat template writes it, so that no program has none or two.
    Decoding restores any text exactly.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(ALONE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary - len(ROLES),
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    markers = re.compile("|".join((IMAGE, *ROLES)))
    tokenizer.train_from_iterator((markers.sub("", text) for text in texts), trainer)
    tokenizer.add_tokens([AddedToken(role, normalized=False) for role in ROLES])
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token, which must be in the vocabulary."""
    number = tokenizer.token_to_id(token)
    assert number is not None, f"the tokenizer has no {token}"
    return number
