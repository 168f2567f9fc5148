"""What is said about pairs of scenes, stories and videos."""

import random
from collections.abc import Mapping
from itertools import pairwise

from mmspec.bench.world.answers import joined, maybe
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.pairs import Pair
from mmspec.bench.world.palette import COLOURS, PLACES, SHAPES
from mmspec.bench.world.phrasing import an, at, listed, place_pattern, placed, say, sentence
from mmspec.bench.world.scene import Thing
from mmspec.bench.world.stories import Story

IMAGE = "<image>"
GONE = "(?:is missing|is gone|has been removed|has disappeared)"
NEW = "(?:has been added|is new|appears)"

DIFFERENCES = {
    "recolour": (
        "the {shape} [changes|has changed|went] from {was} to {now}",
        "the colour of the {shape} [changes|has changed] from {was} to {now}",
    ),
    "reshape": (
        "the {before} [turns into|becomes|has turned into] {a_after}",
        "[where there was|in place of] the {before}, the second image has {a_after}; "
        "the {before} [turns into|becomes] {a_after}",
    ),
    "move": (
        "the {before} [moves|has moved|was moved] from the {here} to the {there}",
        "the {before} [goes|has gone] from the {here} to the {there}",
    ),
    "remove": (
        "the {before} [is missing|is gone|has been removed|has disappeared] in the second image",
        "in the second image, the {before} [is missing|is gone|has been removed|has disappeared]",
    ),
    "add": (
        "{a_after} [has been added|is new|appears] {at_there} in the second image",
        "in the second image, {a_after} [has been added|is new|appears] {at_there}",
    ),
}
EDITS = {
    "recolour": (
        "[change|turn|repaint] the [colour of the |]{shape} from {was} to {now}",
        "[paint|colour] the {shape} [so that it goes |]from {was} to {now}",
    ),
    "reshape": (
        "[make sure|draw it so] that the {before} [turns into|becomes] {a_after}",
        "[erase and redraw|edit the picture] so that the {before} [turns into|becomes] {a_after}",
    ),
    "move": (
        "[move|shift|push] the {before} from the {here} to the {there}",
        "take the {before} and move it from the {here} to the {there}",
    ),
    "remove": (
        "[remove|delete|erase|take away] the {before}[ from the picture|]",
        "[please |]remove the {before} and leave the {b} background empty {at_here}",
    ),
    "add": (
        "[add|draw|put] {a_after} {at_there}[ of the picture|]",
        "[add|draw|put] {a_after} {at_there}, on the {b} background",
    ),
}
BOTH = "the first image [shows|has|contains] {first}. The second [image |one |][shows|has] {second}"
PAIR_OPENINGS = (
    "[I compare|let me compare] the two images",
    "[the two images|both pictures] are [almost the same|nearly alike], but one thing is different",
    "there is [one difference|a single change] between the images",
)
PAIR_CLOSINGS = (
    "[everything else|the rest] [stays the same|is unchanged]",
    "[nothing else changes|no other thing is different]",
    "the {b} background [stays the same|does not change]",
)


def pair_facts(pair: Pair) -> tuple[Fact, ...]:
    """State what differs, in the forms of differences and of edit instructions."""
    erase = "(?:remove|delete|erase|take away) the"
    draw = "(?:add|draw|put) an?"
    match pair.kind, pair.before, pair.after:
        case "recolour", Thing() as before, Thing() as after:
            return (
                _colour(before, r"from {} to \w+"),
                _colour(after, r"from \w+ to {}"),
            )
        case "reshape", Thing() as before, Thing() as after:
            verbs = "(?:turns into|turned into|becomes)"
            return (
                _shape(before, rf"{{}} (?:has )?{verbs}"),
                _shape(after, rf"{verbs} an? \w+ {{}}"),
            )
        case "move", Thing() as before, Thing() as after:
            here = Fact("difference", PLACES[before.place], PLACES, (r"from the {}",))
            form = r"from the [\w ]+? to the {}"
            return here, Fact("difference", PLACES[after.place], PLACES, (form,))
        case "remove", Thing() as before, None:
            return (
                _colour(before, rf"{{}} \w+ {GONE}", rf"{erase} {{}} \w+"),
                _shape(before, rf"\w+ {{}} {GONE}", rf"{erase} \w+ {{}}"),
            )
        case _, _, Thing() as after:
            place = place_pattern()
            return (
                _colour(after, rf"{{}} \w+ {NEW}", rf"{draw} {{}} \w+"),
                _shape(after, rf"\w+ {{}} {NEW}", rf"{draw} \w+ {{}}"),
                Fact(
                    "difference",
                    PLACES[after.place],
                    PLACES,
                    (rf"{NEW} {place}", rf"{draw} \w+ \w+ {place}"),
                ),
            )
    raise AssertionError(f"a change of an unknown kind: {pair.kind}")


def difference(rng: random.Random, pair: Pair) -> str:
    """Tell the difference between the images, with or without what each shows."""
    change = sentence(_change(rng, pair, DIFFERENCES))
    closing = sentence(say(rng, PAIR_CLOSINGS, b=pair.scenes[0].background))
    if rng.random() < 0.5:
        return joined(_both(rng, pair), change, closing if rng.random() < 0.4 else "")
    return joined(maybe(rng, 0.6, PAIR_OPENINGS), change, closing)


def edit(rng: random.Random, pair: Pair) -> str:
    """Instruct how to edit the first image into the second."""
    change = sentence(_change(rng, pair, EDITS))
    keep = say(rng, "[leave|keep] [everything else|the rest] as [it is|before]")
    parts = [_both(rng, pair) if rng.random() < 0.3 else "", change]
    return joined(*parts, sentence(keep) if rng.random() < 0.7 else "")


def caption(rng: random.Random, story: Story, frame: int) -> str:
    """Tell one of a story's frames before the last."""
    hero = story.heroes[frame]
    if frame == 0:
        template = "[{n} the {t}|{n}, the {t},] [waits|wakes up|stands|plays] {at}"
        return sentence(say(rng, template, n=story.name, t=hero.name, at=at(rng, hero.place)))
    if hero.place == story.heroes[frame - 1].place:
        return sentence(say(rng, RESTS, n=story.name, at=at(rng, hero.place)))
    place = _place_name(rng, hero.place)
    return sentence(say(rng, GOES, n=story.name, place=place))


def ending(rng: random.Random, story: Story) -> str:
    """Tell a story's last frame."""
    hero, name = story.heroes[-1], story.name
    move = say(rng, LAST, n=name, place=_place_name(rng, hero.place))
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
    middle = [f"the {_place_name(rng, hero.place)}" for hero in moves]
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


def _change(rng: random.Random, pair: Pair, templates: Mapping[str, tuple[str, ...]]) -> str:
    before, after = pair.before or pair.after, pair.after or pair.before
    assert before is not None
    assert after is not None
    return say(
        rng,
        templates[pair.kind],
        shape=before.shape,
        was=before.colour,
        now=after.colour,
        before=before.name,
        a_after=an(after.name),
        here=_place_name(rng, before.place),
        there=_place_name(rng, after.place),
        at_here=at(rng, before.place),
        at_there=at(rng, after.place),
        b=pair.scenes[0].background,
    )


def _both(rng: random.Random, pair: Pair) -> str:
    first, second = (listed([placed(rng, t) for t in scene.things]) for scene in pair.scenes)
    return sentence(say(rng, BOTH, first=first, second=second))


def _place_name(rng: random.Random, place: int) -> str:
    return at(rng, place).partition(" the ")[2]


def _colour(thing: Thing, *forms: str) -> Fact:
    return Fact("difference", thing.colour, tuple(COLOURS), forms)


def _shape(thing: Thing, *forms: str) -> Fact:
    return Fact("difference", thing.shape, SHAPES, forms)
