"""Stories: a named shape moves from frame to frame, and an event ends the last one."""

import random
from dataclasses import dataclass
from typing import Literal

from mmspec_world.scenes.palette import SHAPES, allowed_colours, choose_background, choose_colours
from mmspec_world.scenes.scene import Scene, Thing, free_place, recolour, scene_of

NAMES = ("Pip", "Momo", "Luna", "Otto", "Nia", "Zed", "Tia", "Bo")
Ending = Literal["move", "recolour", "meet"]
ENDINGS: tuple[Ending, ...] = ("move", "recolour", "meet")


@dataclass(frozen=True, slots=True)
class Story:
    """A hero's colour, shape and place in each frame, and how the story ends.

    `friend` is the thing that the hero meets in the last frame, if the ending is "meet".
    """

    name: str
    ending: Ending
    scenes: tuple[Scene, ...]
    heroes: tuple[Thing, ...]
    friend: Thing | None

    @property
    def key(self) -> str:
        """The keys of all frames, joined."""
        return "story " + " > ".join(scene.key for scene in self.scenes)


def five_frames(rng: random.Random) -> Story:
    """Draw a story of five frames."""
    return _story(rng, 5)


def four_frames(rng: random.Random) -> Story:
    """Draw a story of four frames."""
    return _story(rng, 4)


def _story(rng: random.Random, frames: int) -> Story:
    background = choose_background(rng)
    colours, shapes = choose_colours(rng, 2, background), rng.sample(SHAPES, 2)
    places = _path(rng, frames)
    heroes = [Thing(colours[0], shapes[0], place) for place in places]
    scenes = [scene_of(background, [hero]) for hero in heroes]
    ending, friend = rng.choice(ENDINGS), None
    if ending == "recolour":
        heroes[-1] = recolour(rng, scenes[-1], heroes[-1])
    if ending == "meet":
        colour = rng.choice(allowed_colours(background, {colours[0]}))
        friend = Thing(colour, shapes[1], free_place(rng, scenes[-1]))
    scenes[-1] = scene_of(background, [heroes[-1], *([friend] if friend else [])])
    return Story(rng.choice(NAMES), ending, tuple(scenes), tuple(heroes), friend)


def _path(rng: random.Random, frames: int) -> list[int]:
    """Return the hero's place in each frame; the hero may rest, but not in the last frame."""
    places = [rng.randrange(9)]
    for frame in range(1, frames):
        rests = frame < frames - 1 and rng.random() < 0.25
        places.append(places[-1] if rests else rng.choice([p for p in range(9) if p != places[-1]]))
    return places
