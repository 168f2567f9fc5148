"""Makes samples and labelled pictures from a seed."""

import random
from collections.abc import Callable

from PIL import Image

from mmspec_world.drawing import Labels, label, render
from mmspec_world.facts import Sample
from mmspec_world.pictures import Scene, bar_chart, few_things, many_things, written_word
from mmspec_world.sequences import changed_pair, five_frames
from mmspec_world.split import KEY_SEPARATOR, Split, draw_in_split, generator
from mmspec_world.tasks import CLIP_SCRIPTS, TASK_SCRIPTS
from mmspec_world.wording import Drawing

TASKS, CLIP_TASKS = tuple(TASK_SCRIPTS), tuple(CLIP_SCRIPTS)
SCRIPTS = TASK_SCRIPTS | CLIP_SCRIPTS


def sample(task: str, seed: int, *, split: Split, size: int = 144) -> Sample:
    """Return the sample of a task and a seed, with images of `size` x `size` pixels.

    The result is the same in every process. No content is in both splits.
    """
    rng = generator(task, split, seed)
    script = SCRIPTS[task](rng, split)
    images = tuple(render(rng, p.marks(rng), p.background, size) for p in script.drawings)
    return Sample(task, images, script.turns, KEY_SEPARATOR.join(script.keys))


def labelled_picture(
    seed: int, *, split: Split, size: int = 144, grid: int = 12
) -> tuple[Image.Image, Labels]:
    """Return a picture and, for each name in LABELS, integer labels [grid, grid] of its cells.

    0 means no label, except for "background", whose classes start at 0.
    """
    rng = generator("labelled", split, seed)
    drawing = draw_in_split(split, rng.choice(MAKERS), rng)
    marks = drawing.marks(rng)
    return render(rng, marks, drawing.background, size), label(marks, drawing.background, grid)


def _story_scene(rng: random.Random) -> Scene:
    return rng.choice(five_frames(rng).scenes)


def _pair_scene(rng: random.Random) -> Scene:
    return rng.choice(changed_pair(rng).scenes)


MAKERS: tuple[Callable[[random.Random], Drawing], ...] = (
    few_things,
    few_things,
    many_things,
    many_things,
    bar_chart,
    bar_chart,
    *[written_word] * 7,  # a vision tower learns letters last
    _story_scene,
    _pair_scene,
)
