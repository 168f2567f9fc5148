"""Answers about stories, videos and moving scenes, and the facts that they state."""

import random
from itertools import pairwise

from mmspec_world.answers import join_sentences, maybe_sentence
from mmspec_world.facts import Fact
from mmspec_world.sequences import MovingScene, Story, Track
from mmspec_world.wording import (
    an,
    place_name,
    place_pattern,
    place_phrase,
    say,
    say_sentence,
    sentence,
    thing_fact,
    things_at_places,
)


def frame_caption(rng: random.Random, story: Story, frame: int) -> str:
    """Return the caption of a frame of a story; not for the last frame."""
    hero = story.heroes[frame]
    if frame == 0:
        return say_sentence(
            rng, "story.start", n=story.name, t=hero.name, at=place_phrase(rng, hero.place)
        )
    if hero.place == story.heroes[frame - 1].place:
        return say_sentence(rng, "story.rest", n=story.name, at=place_phrase(rng, hero.place))
    place = place_name(rng, hero.place)
    return say_sentence(rng, "story.goes", n=story.name, place=place)


def ending_text(rng: random.Random, story: Story) -> str:
    """Return the text about the last frame of a story."""
    hero, name = story.heroes[-1], story.name
    move = say_sentence(rng, "story.last", n=name, place=place_name(rng, hero.place))
    event = _ending(rng, story, name)
    review = maybe_sentence(rng, 0.4, "story.review")
    return join_sentences(review, move, event, maybe_sentence(rng, 0.6, "story.moral"))


def _ending(rng: random.Random, story: Story, name: str) -> str:
    hero = story.heroes[-1]
    friend = an(story.friend.name) if story.friend else ""
    phrase = f"event.{story.ending}"
    return say_sentence(rng, phrase, n=name, now=hero.colour, shape=hero.shape, friend=friend)


def ending_facts(story: Story) -> tuple[Fact, ...]:
    """Return the facts of the last frame: the hero's place and the event."""
    hero = story.heroes[-1]
    form = r"(?:goes|walks|runs|moves|comes|travels|heads|hurries) to the {}"
    return thing_fact("story", hero, "place", form), *_event_facts(story)


def video_text(rng: random.Random, story: Story) -> str:
    """Return the text about a video, place by place."""
    first, *_, last = story.heroes
    heroes = story.heroes[:-1]
    moves = [b for a, b in pairwise(heroes) if a.place != b.place]
    middle = [f"the {place_name(rng, hero.place)}" for hero in moves]
    start = say_sentence(
        rng, "video.start", thing=an(first.name), at=place_phrase(rng, first.place)
    )
    phrase = "video.path" if middle else "video.rest"
    end = place_phrase(rng, last.place)
    path = say_sentence(rng, phrase, middle=" and then ".join(middle), at=end)
    event = _ending(rng, story, f"the {last.shape}")
    ground = say(rng, "video.background", b=story.scenes[0].background)
    return join_sentences(start, path, event, sentence(ground) if rng.random() < 0.4 else "")


def video_facts(story: Story) -> tuple[Fact, ...]:
    """Return the facts of a video: the hero, the first and the last place, and the event."""
    first, *_, last = story.heroes
    shows = "(?:shows|follows|is about|see) an?"
    place = place_pattern()
    return (
        thing_fact("story", first, "colour", rf"{shows} {{}} \w+"),
        thing_fact("story", first, "shape", rf"{shows} \w+ {{}}"),
        thing_fact("story", first, "place", rf"(?:starts|begins) {place}"),
        thing_fact("story", last, "place", rf"(?:ends|stops|arrives) {place}"),
        *_event_facts(story),
    )


def _event_facts(story: Story) -> tuple[Fact, ...]:
    hero, friend = story.heroes[-1], story.friend
    if story.ending == "recolour":
        form = r"(?:turns|becomes|changes to|is now) {}"
        return (thing_fact("story", hero, "colour", form),)
    if friend is None:
        return ()
    meets = "(?:meets|finds|sees|greets) an?"
    return (
        thing_fact("story", friend, "colour", rf"{meets} {{}} \w+"),
        thing_fact("story", friend, "shape", rf"{meets} \w+ {{}}"),
    )


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
