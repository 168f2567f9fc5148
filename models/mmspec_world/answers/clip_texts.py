"""Answers about moving scenes, and the facts that they state."""

import random

from mmspec_world.answers.answers import join_sentences
from mmspec_world.answers.phrasing import (
    an,
    place_name,
    place_pattern,
    place_phrase,
    say,
    say_sentence,
    things_at_places,
)
from mmspec_world.answers.statements import thing_fact
from mmspec_world.facts import Fact
from mmspec_world.scenes.moving_scenes import MovingScene, Track

VERBS = {"enter": "appears", "leave": "is gone", "move": "moves"}
"""The words that say an event."""
ORDER = ("clip.first", "clip.next", "clip.last")
AT = place_pattern()
SOMEWHERE = r"(?:in|at|on) the [\w ]+?"
STATEMENTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "enter": (
        ("first", "colour", r"an? {} \w+ appears"),
        ("first", "shape", r"an? \w+ {} appears"),
        ("first", "place", rf"appears {AT}"),
    ),
    "leave": (
        ("first", "colour", rf"{{}} \w+ {SOMEWHERE} is gone"),
        ("first", "shape", rf"\w+ {{}} {SOMEWHERE} is gone"),
        ("first", "place", rf"{AT}(?: corner| side)? is gone"),
    ),
    "move": (
        ("first", "colour", r"{} \w+ moves from"),
        ("first", "shape", r"\w+ {} moves from"),
        ("first", "place", r"moves from the {}"),
        ("last", "place", r"moves from the [\w ]+? to the {}"),
    ),
}
"""By event, the facts to state: the thing at its first or last place, a trait, and the form."""


def start_text(rng: random.Random, clip: MovingScene) -> str:
    """Return a sentence about the first frame."""
    return say_sentence(rng, "clip.start", things=things_at_places(rng, clip.frames[0].things))


def event_text(rng: random.Random, track: Track) -> str:
    """Return what happens to a thing, without a capital and a full stop."""
    first, last = track.first, track.last
    return say(
        rng,
        f"clip.{track.event}",
        thing=first.name,
        a_thing=an(first.name),
        at=place_phrase(rng, first.place),
        start=place_name(rng, first.place),
        end=place_name(rng, last.place),
    )


def clip_text(rng: random.Random, clip: MovingScene) -> str:
    """Return the text about a clip: the first frame, then the events in order."""
    events = [
        say_sentence(rng, order, event=event_text(rng, track))
        for order, track in zip(ORDER, clip.events, strict=True)
    ]
    ground = say_sentence(rng, "video.background", b=clip.background)
    return join_sentences(start_text(rng, clip), *events, ground if rng.random() < 0.3 else "")


def clip_facts(clip: MovingScene) -> tuple[Fact, ...]:
    """Return the facts of a clip: those of every event, and which event is the first."""
    first = VERBS[clip.events[0].event]
    order = Fact("story", first, tuple(VERBS.values()), (r"first, [^.]*?{}",))
    return (*(fact for track in clip.events for fact in event_facts(track)), order)


def event_facts(track: Track) -> tuple[Fact, ...]:
    """Return the facts of one event: the thing and its places."""
    ends = {"first": track.first, "last": track.last}
    return tuple(
        thing_fact("story", ends[end], trait, form) for end, trait, form in STATEMENTS[track.event]
    )
