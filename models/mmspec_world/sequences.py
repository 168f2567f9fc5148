"""The contents of several pictures: pairs, stories and moving scenes."""

import random
from dataclasses import dataclass, replace

from mmspec_world.drawing import PLACES, SHAPES, allowed_colours, choose_background, choose_colours
from mmspec_world.pictures import Scene, Thing, few_things, scene_of

KINDS = ("recolour", "reshape", "move", "remove", "add")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scenes, and the thing that differs, before (None: added) and after (None: removed)."""

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
    others = (thing for thing in scene.things if thing is not before)
    things = [*others, *filter(None, [after])]
    if not things:
        return changed_pair(rng)
    return Pair(kind, (scene, scene_of(scene.background, things)), before, after)


def _after(rng: random.Random, kind: str, scene: Scene, thing: Thing | None) -> Thing | None:
    if thing is None:
        present = {other.colour for other in scene.things}
        colour = rng.choice(allowed_colours(scene.background, present))
        return Thing(colour, scene.new_shape(rng), scene.free_place(rng))
    match kind:
        case "recolour":
            return scene.recolour(rng, thing)
        case "reshape":
            return replace(thing, shape=scene.new_shape(rng))
        case "move":
            return replace(thing, place=scene.free_place(rng))
    return None


NAMES = ("Pip", "Momo", "Luna", "Otto", "Nia", "Zed", "Tia", "Bo")
ENDINGS = ("move", "recolour", "meet")


@dataclass(frozen=True, slots=True)
class Story:
    """A hero in each frame, how the story ends, and the friend that it meets then, if it does."""

    name: str
    ending: str
    scenes: tuple[Scene, ...]
    heroes: tuple[Thing, ...]
    friend: Thing | None

    @property
    def key(self) -> str:
        """The keys of all frames, joined."""
        return "story " + " > ".join(scene.key for scene in self.scenes)


def draw_story(rng: random.Random, frames: int) -> Story:
    """Draw a story of so many frames."""
    background = choose_background(rng)
    colours, shapes = choose_colours(rng, 2, background), rng.sample(SHAPES, 2)
    places = _hero_path(rng, frames)
    heroes = [Thing(colours[0], shapes[0], place) for place in places]
    scenes = [scene_of(background, [hero]) for hero in heroes]
    ending, friend = rng.choice(ENDINGS), None
    if ending == "recolour":
        heroes[-1] = scenes[-1].recolour(rng, heroes[-1])
    if ending == "meet":
        colour = rng.choice(allowed_colours(background, {colours[0]}))
        friend = Thing(colour, shapes[1], scenes[-1].free_place(rng))
    scenes[-1] = scene_of(background, [heroes[-1], *([friend] if friend else [])])
    return Story(rng.choice(NAMES), ending, tuple(scenes), tuple(heroes), friend)


def _hero_path(rng: random.Random, frames: int) -> list[int]:
    """Return the hero's place in each frame; the hero may rest, but not in the last frame."""
    places = [rng.randrange(9)]
    for frame in range(1, frames):
        rests = frame < frames - 1 and rng.random() < 0.25
        places.append(places[-1] if rests else rng.choice([p for p in range(9) if p != places[-1]]))
    return places


EVENTS = ("enter", "leave", "move")
"""What happens once in every clip, in any order."""


@dataclass(frozen=True, slots=True)
class MovingThing:
    """What happens to a thing, and the thing in each frame; None if the frame does not show it."""

    event: str
    frames: tuple[Thing | None, ...]

    @property
    def first(self) -> Thing:
        """The thing where it is first seen."""
        return next(filter(None, self.frames))

    @property
    def last(self) -> Thing:
        """The thing where it is last seen."""
        return next(filter(None, reversed(self.frames)))

    @property
    def key(self) -> str:
        """Event, thing and places as text, "-" where no place is."""
        places = " > ".join(PLACES[thing.place] if thing else "-" for thing in self.frames)
        return f"{self.event} {self.first.name} {places}"

    @property
    def start(self) -> int:
        """The first frame that differs from frame 0."""
        return next(n for n, thing in enumerate(self.frames) if thing != self.frames[0])


@dataclass(frozen=True, slots=True)
class MovingScene:
    """Things that enter, leave, move or stay on a background, frame by frame."""

    background: str
    things: tuple[MovingThing, ...]

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """The scene in each frame."""
        frames = zip(*(moving.frames for moving in self.things), strict=True)
        return tuple(scene_of(self.background, [*filter(None, things)]) for things in frames)

    @property
    def events(self) -> tuple[MovingThing, ...]:
        """The things on which something happens, in the order of time."""
        happening = [moving for moving in self.things if moving.event != "stay"]
        return tuple(sorted(happening, key=lambda moving: moving.start))

    @property
    def key(self) -> str:
        """The content as text: background, then event, thing and places of every thing."""
        return f"clip {self.background}: {', '.join(moving.key for moving in self.things)}"


def moving_scene(rng: random.Random, frames: int) -> MovingScene:
    """Draw a moving scene of so many frames, four at least."""
    background = choose_background(rng)
    events = [*EVENTS, "stay"] if rng.random() < 0.5 else [*EVENTS]
    colours, shapes = choose_colours(rng, 3, background), rng.sample(SHAPES, len(events))
    colours += rng.choices(colours, k=len(events) - len(colours))
    starts = [*rng.sample(range(1, frames), len(EVENTS)), 0]
    things = [
        _moving_thing(rng, event, Thing(colour, shape, 0), start, frames)
        for event, colour, shape, start in zip(events, colours, shapes, starts, strict=False)
    ]
    at_once = zip(*(moving.frames for moving in things), strict=True)
    places = [[thing.place for thing in frame if thing] for frame in at_once]
    if any(len(each) > len(set(each)) for each in places):  # two things are in one place
        return moving_scene(rng, frames)
    return MovingScene(background, tuple(things))


def _moving_thing(
    rng: random.Random, event: str, thing: Thing, start: int, frames: int
) -> MovingThing:
    first, last = rng.sample(range(9), 2)
    before = [None if event == "enter" else first] * start
    after: list[int | None] = [None if event == "leave" else first] * (frames - start)
    if event == "move":
        steps = _path(first, last)[: frames - start]
        after = [*steps, *[steps[-1]] * (frames - start - len(steps))]
    places = (*before, *after)
    things = (None if at is None else replace(thing, place=at) for at in places)
    return MovingThing(event, tuple(things))


def _path(first: int, last: int) -> list[int]:
    """Return the places after `first` on the way to `last`, each beside the one before."""
    row, column = divmod(first, 3)
    to_row, to_column = divmod(last, 3)
    path = []
    while (row, column) != (to_row, to_column):
        row += (to_row > row) - (to_row < row)
        column += (to_column > column) - (to_column < column)
        path.append(3 * row + column)
    return path
