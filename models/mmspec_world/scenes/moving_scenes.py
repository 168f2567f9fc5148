"""Moving scenes: frame by frame one thing enters, one leaves and one moves; another may stay."""

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from mmspec_world.scenes.palette import PLACES, SHAPES, choose_background, choose_colours
from mmspec_world.scenes.scene import Scene, Thing, scene_of

Event = Literal["enter", "leave", "move", "stay"]
EVENTS: tuple[Event, ...] = ("enter", "leave", "move")
"""What happens once in every clip, in any order."""


@dataclass(frozen=True, slots=True)
class Track:
    """What happens to a thing, and its place in each frame; None if the frame does not show it."""

    event: Event
    thing: Thing
    places: tuple[int | None, ...]

    @property
    def first(self) -> Thing:
        """The thing at the first place where it is seen."""
        return self._at(next(place for place in self.places if place is not None))

    @property
    def last(self) -> Thing:
        """The thing at the last place where it is seen."""
        return self._at(next(place for place in reversed(self.places) if place is not None))

    @property
    def key(self) -> str:
        """Event, thing and places as text, "-" where no place is."""
        places = " > ".join("-" if place is None else PLACES[place] for place in self.places)
        return f"{self.event} {self.thing.name} {places}"

    @property
    def start(self) -> int:
        """The first frame that differs from frame 0."""
        return next(n for n, place in enumerate(self.places) if place != self.places[0])

    def _at(self, place: int) -> Thing:
        return replace(self.thing, place=place)


@dataclass(frozen=True, slots=True)
class MovingScene:
    """Things that enter, leave, move or stay on a background, frame by frame."""

    background: str
    tracks: tuple[Track, ...]

    @property
    def frames(self) -> tuple[Scene, ...]:
        """The scene in each frame."""
        return tuple(
            scene_of(
                self.background,
                [
                    replace(track.thing, place=place)
                    for track, place in zip(self.tracks, places, strict=True)
                    if place is not None
                ],
            )
            for places in zip(*(track.places for track in self.tracks), strict=True)
        )

    @property
    def events(self) -> tuple[Track, ...]:
        """The tracks on which something happens, in the order of time."""
        happening = [track for track in self.tracks if track.event != "stay"]
        return tuple(sorted(happening, key=lambda track: track.start))

    @property
    def key(self) -> str:
        """The content as text: background, then event, thing and places of every track."""
        return f"clip {self.background}: {', '.join(track.key for track in self.tracks)}"


def moving_scene(rng: random.Random, frames: int) -> MovingScene:
    """Draw a moving scene of so many frames, four at least."""
    background = choose_background(rng)
    events: list[Event] = list(EVENTS)
    if rng.random() < 0.5:
        events.append("stay")
    colours, shapes = choose_colours(rng, 3, background), rng.sample(SHAPES, len(events))
    colours += rng.choices(colours, k=len(events) - len(colours))
    starts = [*rng.sample(range(1, frames), len(EVENTS)), 0]
    tracks = [
        _track(rng, event, Thing(colour, shape, 0), start, frames)
        for event, colour, shape, start in zip(events, colours, shapes, starts, strict=False)
    ]
    if _collide(tracks):
        return moving_scene(rng, frames)
    return MovingScene(background, tuple(tracks))


def _track(rng: random.Random, event: Event, thing: Thing, start: int, frames: int) -> Track:
    first, *others = rng.sample(range(9), 2)
    before = [None if event == "enter" else first] * start
    if event == "leave":
        after: list[int | None] = [None] * (frames - start)
    elif event == "move":
        steps = _path(first, others[0])[: frames - start]
        after = [*steps, *[steps[-1]] * (frames - start - len(steps))]
    else:
        after = [first] * (frames - start)
    return Track(event, thing, (*before, *after))


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


def _collide(tracks: list[Track]) -> bool:
    """Return whether two things are in one place in a frame."""
    frames = zip(*(track.places for track in tracks), strict=True)
    counts = (Counter(place for place in places if place is not None) for places in frames)
    return any(count > 1 for counter in counts for count in counter.values())
