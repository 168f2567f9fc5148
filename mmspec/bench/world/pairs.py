"""Pairs of scenes that differ in one thing."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from mmspec.bench.world.palette import SHAPES, allowed_colours
from mmspec.bench.world.scene import (
    Scene,
    Thing,
    few_things,
    free_place,
    recoloured,
    scene_of,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scenes, and the thing that differs: what it was and what it is.

    `before` is None for a thing that was added, `after` for one that was removed.
    """

    kind: str
    scenes: tuple[Scene, Scene]
    before: Thing | None
    after: Thing | None

    @property
    def key(self) -> str:
        """Both scenes' keys."""
        return f"pair {self.scenes[0].key} > {self.scenes[1].key}"


def changed_pair(rng: random.Random) -> Pair:
    """Draw a scene and change one thing in it, each kind of change as often."""
    kind = rng.choice(tuple(CHANGES))
    scene = few_things(rng)
    before = None if kind == "add" else rng.choice(scene.things)
    after = CHANGES[kind](rng, scene, before)
    things = [thing for thing in scene.things if thing is not before]
    if after is not None:
        things.append(after)
    if not things:
        return changed_pair(rng)
    return Pair(kind, (scene, scene_of(scene.background, things)), before, after)


def _recolour(rng: random.Random, scene: Scene, thing: Thing | None) -> Thing:
    assert thing is not None
    return recoloured(rng, scene, thing)


def _reshape(rng: random.Random, scene: Scene, thing: Thing | None) -> Thing:
    assert thing is not None
    return replace(thing, shape=_new_shape(rng, scene))


def _move(rng: random.Random, scene: Scene, thing: Thing | None) -> Thing:
    assert thing is not None
    return replace(thing, place=free_place(rng, scene))


def _remove(_rng: random.Random, _scene: Scene, _thing: Thing | None) -> None:
    return None


def _add(rng: random.Random, scene: Scene, _thing: Thing | None) -> Thing:
    colour = rng.choice(allowed_colours(scene.background, scene.colours))
    return Thing(colour, _new_shape(rng, scene), free_place(rng, scene))


def _new_shape(rng: random.Random, scene: Scene) -> str:
    present = {thing.shape for thing in scene.things}
    return rng.choice([shape for shape in SHAPES if shape not in present])


CHANGES: dict[str, Callable[[random.Random, Scene, Thing | None], Thing | None]] = {
    "recolour": _recolour,
    "reshape": _reshape,
    "move": _move,
    "remove": _remove,
    "add": _add,
}
