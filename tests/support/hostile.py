"""Names and texts that would take over a terminal, and a model that says them."""

import json
import re
import shutil
from pathlib import Path

from support.terminal import OWN

TITLE = "\x1b]0;owned\x07"
"""Sets the title of a window."""

EVIL = f"{TITLE}\x1b[5;5H\x9b2J\x7f\u202e"
"""Sets the title, moves the cursor, erases the screen, deletes, and turns the reading order."""


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
