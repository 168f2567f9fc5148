"""Answers about stories and videos."""

import random
from itertools import pairwise

from mmspec_world.answers.answers import join_sentences, maybe_sentence
from mmspec_world.answers.phrasing import (
    an,
    place_name,
    place_pattern,
    place_phrase,
    say,
    say_sentence,
    sentence,
)
from mmspec_world.answers.statements import thing_fact
from mmspec_world.facts import Fact
from mmspec_world.scenes.stories import Story


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
    event = _event(rng, story, name)
    review, moral = (
        maybe_sentence(rng, 0.4, "story.review"),
        maybe_sentence(rng, 0.6, "story.moral"),
    )
    return join_sentences(review, move, event, moral)


def _event(rng: random.Random, story: Story, name: str) -> str:
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
    event = _event(rng, story, f"the {last.shape}")
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
