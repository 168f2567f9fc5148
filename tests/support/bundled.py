"""Questions about pictures for the models that come with the package."""

from pathlib import Path

from mmspec.diagnostics.prompts import user_prompt
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import open_picture

DRAWINGS = Path(__file__).parents[1] / "drawings"
SAMPLES = Path(__file__).parents[2] / "models" / "mmspec_models" / "samples"


def question(image: Path, text: str) -> Message:
    """One picture and a question about it."""
    return user_prompt(text, [open_picture(image)]).message
