"""What is said about stories and videos."""

import random
from itertools import pairwise

from mmspec.bench.world.answers import joined, maybe
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.palette import COLOURS, PLACES, SHAPES
from mmspec.bench.world.phrasing import an, at, place_name, place_pattern, say, sentence
from mmspec.bench.world.stories import Story

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


def caption(rng: random.Random, story: Story, frame: int) -> str:
    """Tell one of a story's frames before the last."""
    hero = story.heroes[frame]
    if frame == 0:
        template = "[{n} the {t}|{n}, the {t},] [waits|wakes up|stands|plays] {at}"
        return sentence(say(rng, template, n=story.name, t=hero.name, at=at(rng, hero.place)))
    if hero.place == story.heroes[frame - 1].place:
        return sentence(say(rng, RESTS, n=story.name, at=at(rng, hero.place)))
    place = place_name(rng, hero.place)
    return sentence(say(rng, GOES, n=story.name, place=place))


def ending(rng: random.Random, story: Story) -> str:
    """Tell a story's last frame."""
    hero, name = story.heroes[-1], story.name
    move = say(rng, LAST, n=name, place=place_name(rng, hero.place))
    event = say(
        rng,
        EVENTS[story.ending],
        n=name,
        now=hero.colour,
        shape=hero.shape,
        friend=an(story.friend.name) if story.friend else "",
    )
    parts = [maybe(rng, 0.4, REVIEWS), sentence(move), sentence(event), maybe(rng, 0.6, MORALS)]
    return joined(*parts)


def ending_facts(story: Story) -> tuple[Fact, ...]:
    """State what the last frame shows: the hero's place and what happens there."""
    hero = story.heroes[-1]
    form = r"(?:goes|walks|runs|moves|comes|travels|heads|hurries) to the {}"
    return Fact("story", PLACES[hero.place], PLACES, (form,)), *_event_facts(story)


def film(rng: random.Random, story: Story) -> str:
    """Tell what happens in a video, place by place."""
    first, *_, last = story.heroes
    heroes = story.heroes[:-1]
    moves = [b for a, b in pairwise(heroes) if a.place != b.place]
    middle = [f"the {place_name(rng, hero.place)}" for hero in moves]
    start = say(rng, FILM_START, thing=an(first.name), at=at(rng, first.place))
    paths = FILM_PATH if middle else FILM_REST
    path = say(rng, paths, middle=" and then ".join(middle), at=at(rng, last.place))
    event = say(
        rng,
        EVENTS[story.ending],
        n=f"the {last.shape}",
        now=last.colour,
        shape=last.shape,
        friend=an(story.friend.name) if story.friend else "",
    )
    ground = say(rng, "the background [is|stays] {b}[ all the time|]", b=story.scenes[0].background)
    parts = [sentence(start), sentence(path), sentence(event)]
    return joined(*parts, sentence(ground) if rng.random() < 0.4 else "")


def film_facts(story: Story) -> tuple[Fact, ...]:
    """State who moves in a video, from where to where, and what happens in the end."""
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
