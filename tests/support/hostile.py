"""Names and texts that would take over a terminal, and models, cards and hubs that say them."""

import json
import re
import shutil
from pathlib import Path

from mmspec.checkpoints import cards
from support import endless
from support.terminal import OWN

TITLE = "\x1b]0;owned\x07"
"""Sets the title of a window."""

EVIL = f"{TITLE}\x1b[5;5H\x9b2J\x7f\u202e"
"""Sets the title, moves the cursor, erases the screen, deletes, and turns the reading order."""

CARD = """
kind = "target"
description = TEXT
licence = TEXT
note = TEXT
[source]
torch = TEXT
"""


def reached(screen: str) -> list[str]:
    """The control characters of others that a terminal received; a prompt moves by backspaces."""
    own = re.sub(OWN, "", screen.replace("\x1b[5;5H", "\x07"))
    return re.findall(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", own)


def talking(checkpoint: Path, copy: Path) -> Path:
    """A copy of a checkpoint that says control characters wherever it would say a letter."""
    shutil.copytree(checkpoint, copy)
    file = copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    says = {"type": "Replace", "pattern": {"Regex": "[a-zA-Z]"}, "content": EVIL}
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [tokenizer["decoder"], says]}
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    return copy


def main(arguments: list[str]) -> int:
    """`mmspec` with a card of such texts; answers end at their budget alone."""
    read = cards._texts
    cards._texts = lambda: [*read(), ("evil", CARD.replace("TEXT", json.dumps(EVIL)))]
    return endless.main(arguments)
