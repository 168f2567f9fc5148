"""The judge of answers about the synthetic world: whether they state a fact."""

import functools
import re

from mmspec_world.facts import SLOT, Fact

CATEGORIES = (
    "colour", "shape", "count", "position", "relation", "background", "chart", "word",
    "difference", "story",
)  # fmt: skip
# A picture may show any word, so every word in capitals counts as a statement about it.
CAPITALS = r"((?-i:[A-Z]+))"


def judge(fact: Fact, answer: str) -> bool:
    """Return whether the last statement of `answer` about the fact is true."""
    text, is_word = " ".join(answer.split()), fact.category == "word"
    statements = (
        (match.end(1), match.group(1).lower())
        for form in fact.forms
        for match in _pattern(form, fact.options, is_word).finditer(text)
    )
    _, option = max(statements, default=(0, ""))
    return option == fact.value.lower()


@functools.lru_cache(maxsize=4096)
def _pattern(form: str, options: tuple[str, ...], capitals: bool) -> re.Pattern[str]:
    longest_first = sorted(options, key=len, reverse=True)
    slot = CAPITALS if capitals else f"({'|'.join(map(re.escape, longest_first))})"
    return re.compile(r"\b" + form.replace(SLOT, rf"\b{slot}\b"), re.IGNORECASE)
