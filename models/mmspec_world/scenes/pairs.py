"""Pairs of scenes that differ in one thing."""

import random
from dataclasses import dataclass, replace

from mmspec_world.scenes.palette import SHAPES, allowed_colours
from mmspec_world.scenes.scene import Scene, Thing, few_things, free_place, recolour, scene_of

KINDS = ("recolour", "reshape", "move", "remove", "add")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scenes, and the thing that differs, before and after the change.

    `before` is None if the thing was added, `after` if it was removed.
    """

    kind: str
    scenes: tuple[Scene, Scene]
    before: Thing | None
    after: Thing | None

    @property
    def key(self) -> str:
        """The keys of both scenes."""
        return f"pair {self.scenes[0].key} > {self.scenes[1].key}"


def changed_pair(rng: random.Random) -> Pair:
    """Draw a scene and change one thing in it; all kinds of change are equally likely."""
    kind = rng.choice(KINDS)
    scene = few_things(rng)
    before = None if kind == "add" else rng.choice(scene.things)
    after = _after(rng, kind, scene, before)
    things = [thing for thing in scene.things if thing is not before]
    if after is not None:
        things.append(after)
    if not things:
        return changed_pair(rng)
    return Pair(kind, (scene, scene_of(scene.background, things)), before, after)


def _after(rng: random.Random, kind: str, scene: Scene, thing: Thing | None) -> Thing | None:
    if thing is None:
        colour = rng.choice(allowed_colours(scene.background, scene.colours))
        return Thing(colour, _new_shape(rng, scene), free_place(rng, scene))
    match kind:
        case "recolour":
            return recolour(rng, scene, thing)
        case "reshape":
            return replace(thing, shape=_new_shape(rng, scene))
        case "move":
            return replace(thing, place=free_place(rng, scene))
    return None


def _new_shape(rng: random.Random, scene: Scene) -> str:
    present = {thing.shape for thing in scene.things}
    return rng.choice([shape for shape in SHAPES if shape not in present])
