"""Records how many of eight drafted tokens are right at each position of mini's answers.

    python tests/right_tokens.py > tests/support/right_tokens.json

The prompts and drafts are those of tests/results.py, greedy. Each round commits one token alone, so
that the next draft begins one position later.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Collection
from pathlib import Path
from unittest.mock import patch

from results import ROUNDS

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.acceptance import Verdict, accept
from mmspec.diagnostics.prompts import read_prompts
from mmspec.diagnostics.single_turn import answer_once
from mmspec_bench.prompts import prompts_for


def main() -> None:
    """Write a JSON object: by kind of prompt, a line of digits for each answer."""
    counts: list[int] = []

    def accept_first(verdict: Verdict, stop: Collection[int] = ()) -> tuple[list[int], list[int]]:
        path, tokens = accept(verdict, stop)
        counts.append(len(path))
        return [], tokens[:1]

    parser = ArgumentParser()
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--drafting")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--tasks", type=lambda names: names.split(","), default=())
    parser.add_argument("--count", type=int)
    lines: dict[str, list[str]] = {}
    for kind, words in ROUNDS.items():
        asked, _ = parser.parse_known_args(words.split())
        engine = load("mini", asked.draft, backend="torch", device="cpu")
        options = Options(drafting=asked.drafting, gamma=8, max_new_tokens=96)
        own = prompts_for(engine.target.model.config, asked.count or 0, asked.tasks)
        lines[kind] = []
        for prompt in read_prompts(asked.prompts) if asked.prompts else own:
            counts.clear()
            with patch("mmspec.decoding.loop.accept", accept_first):
                answer_once(engine, prompt.message, options)
            lines[kind].append("".join(map(str, counts)))
    json.dump(lines, sys.stdout, indent=0)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
