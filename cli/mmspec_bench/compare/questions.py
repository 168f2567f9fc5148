"""Converts prompts to questions for the scripts."""

from pathlib import Path

from mmspec.diagnostics.prompts import Prompt
from mmspec.prompt.images import Picture
from mmspec_bench.compare.script_io import Question


def question_of(prompt: Prompt, folder: Path) -> Question:
    """The prompt's parts in order; its pictures are written as files to `folder`."""
    return [_part(part, folder) for part in prompt.message.parts]


def _part(part: str | Picture, folder: Path) -> dict[str, str]:
    if isinstance(part, str):
        return {"text": part}
    file = folder / f"{part.digest}.png"
    part.image.save(file)
    return {"image": str(file)}
