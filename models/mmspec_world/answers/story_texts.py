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
from mmspec_world.facts import Fact
from mmspec_world.scenes.palette import COLOURS, PLACES, SHAPES
from mmspec_world.scenes.stories import Story

RESTS = "{n} [stays|rests|sleeps|waits|sings] {at}[ for a while|]"
GOES = "[then|next,|after that|soon|] {n} [goes|walks|runs|moves] to the {place}"
LAST = (
    "[in the last image|in the end|finally|at last], {n} "
    "[goes|walks|runs|moves|comes|travels|heads|hurries] to the {place}"
)
EVENTS = {
    "move": (
        "[there|now] {n} [rests alone|is all alone|looks around|takes a break]",
        "{n} [stays|rests|sleeps] there and [nothing else happens|all is quiet]",
    ),
    "recolour": (
        "[there|suddenly|to our surprise,] {n} [turns|becomes|changes to] {now}",
        "[what a surprise:|something happens:] the {shape} [turns|becomes|changes to] {now}",
    ),
    "meet": (
        "[there|in this place] {n} [meets|finds|sees|greets] {friend}",
        "{n} is no longer alone and [meets|finds|sees|greets] {friend}",
    ),
}
REVIEWS = (
    "[it has been|this was] a [long|funny|strange|quiet] [walk|trip|journey] so far",
    "the story [is not over yet|has one more step]",
    "after all these [places|steps], [one thing is left to tell|the last picture tells the end]",
)
MORALS = (
    "[it was|what] a [long|lovely|busy|good] day",
    "[everyone is|all are] [happy|glad|content][ in the end|]",
    "[the|this] story [ends well|ends here|is over]",
    "[tomorrow|next time] [the journey|the adventure] goes on",
)
FILM_START = (
    "[the video|this clip] [shows|follows|is about] {thing} that [starts|begins] {at}",
    "we see {thing} that [starts|begins] {at}",
)
FILM_PATH = (
    "[it|then it] [moves|goes] to {middle} and [finally |at last |][ends|stops|arrives] {at}",
    "[first|next] it [moves|goes] to {middle}, until it [ends|stops|arrives] {at}",
)
FILM_REST = (
    "it [rests|waits] there[ for a while|] and [finally|at last] [ends|stops|arrives] {at}",
)


def frame_caption(rng: random.Random, story: Story, frame: int) -> str:
    """Return the caption of a frame of a story; not for the last frame."""
    hero = story.heroes[frame]
    if frame == 0:
        template = "[{n} the {t}|{n}, the {t},] [waits|wakes up|stands|plays] {at}"
        return say_sentence(
            rng, template, n=story.name, t=hero.name, at=place_phrase(rng, hero.place)
        )
    if hero.place == story.heroes[frame - 1].place:
        return say_sentence(rng, RESTS, n=story.name, at=place_phrase(rng, hero.place))
    place = place_name(rng, hero.place)
    return say_sentence(rng, GOES, n=story.name, place=place)


def ending_text(rng: random.Random, story: Story) -> str:
    """Return the text about the last frame of a story."""
    hero, name = story.heroes[-1], story.name
    move = say_sentence(rng, LAST, n=name, place=place_name(rng, hero.place))
    event = _event(rng, story, name)
    review, moral = maybe_sentence(rng, 0.4, REVIEWS), maybe_sentence(rng, 0.6, MORALS)
    return join_sentences(review, move, event, moral)


def _event(rng: random.Random, story: Story, name: str) -> str:
    hero = story.heroes[-1]
    friend = an(story.friend.name) if story.friend else ""
    template = EVENTS[story.ending]
    return say_sentence(rng, template, n=name, now=hero.colour, shape=hero.shape, friend=friend)


def ending_facts(story: Story) -> tuple[Fact, ...]:
    """Return the facts of the last frame: the hero's place and the event."""
    hero = story.heroes[-1]
    form = r"(?:goes|walks|runs|moves|comes|travels|heads|hurries) to the {}"
    return Fact("story", PLACES[hero.place], PLACES, (form,)), *_event_facts(story)


def video_text(rng: random.Random, story: Story) -> str:
    """Return the text about a video, place by place."""
    first, *_, last = story.heroes
    heroes = story.heroes[:-1]
    moves = [b for a, b in pairwise(heroes) if a.place != b.place]
    middle = [f"the {place_name(rng, hero.place)}" for hero in moves]
    start = say_sentence(rng, FILM_START, thing=an(first.name), at=place_phrase(rng, first.place))
    paths = FILM_PATH if middle else FILM_REST
    end = place_phrase(rng, last.place)
    path = say_sentence(rng, paths, middle=" and then ".join(middle), at=end)
    event = _event(rng, story, f"the {last.shape}")
    ground = say(rng, "the background [is|stays] {b}[ all the time|]", b=story.scenes[0].background)
    return join_sentences(start, path, event, sentence(ground) if rng.random() < 0.4 else "")


def video_facts(story: Story) -> tuple[Fact, ...]:
    """Return the facts of a video: the hero, the first and the last place, and the event."""
    first, *_, last = story.heroes
    shows = "(?:shows|follows|is about|see) an?"
    place = place_pattern()
    return (
        Fact("story", first.colour, tuple(COLOURS), (rf"{shows} {{}} \w+",)),
        Fact("story", first.shape, SHAPES, (rf"{shows} \w+ {{}}",)),
        Fact("story", PLACES[first.place], PLACES, (rf"(?:starts|begins) {place}",)),
        Fact("story", PLACES[last.place], PLACES, (rf"(?:ends|stops|arrives) {place}",)),
        *_event_facts(story),
    )


def _event_facts(story: Story) -> tuple[Fact, ...]:
    hero, friend = story.heroes[-1], story.friend
    if story.ending == "recolour":
        form = r"(?:turns|becomes|changes to|is now) {}"
        return (Fact("story", hero.colour, tuple(COLOURS), (form,)),)
    if friend is None:
        return ()
    meets = "(?:meets|finds|sees|greets) an?"
    return (
        Fact("story", friend.colour, tuple(COLOURS), (rf"{meets} {{}} \w+",)),
        Fact("story", friend.shape, SHAPES, (rf"{meets} \w+ {{}}",)),
    )
