"""What is said about pairs of scenes: differences and edit instructions."""

import random
from collections.abc import Mapping

from mmspec.bench.world.answers import joined, maybe
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.pairs import Pair
from mmspec.bench.world.palette import COLOURS, PLACES, SHAPES
from mmspec.bench.world.phrasing import (
    an,
    at,
    listed,
    place_pattern,
    placed,
    say,
    sentence,
)
from mmspec.bench.world.scene import Thing

CHANGED = ("the {before} {at_here} [becomes|turns into|has become] {a_after} {at_there}",)
TURN = (
    "[turn|change|make] the {before} {at_here} into {a_after} {at_there}",
    "[redraw|edit] the picture so that the {before} {at_here} [becomes|turns into] "
    "{a_after} {at_there}",
)
DIFFERENCES = {
    "recolour": CHANGED,
    "reshape": CHANGED,
    "move": CHANGED,
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
    "recolour": TURN,
    "reshape": TURN,
    "move": TURN,
    "remove": (
        "[remove|delete|erase|take away] the {before}[ from the picture|]",
        "[please |]remove the {before} and leave the {b} background empty {at_here}",
    ),
    "add": (
        "[add|draw|put] {a_after} {at_there}[ of the picture|]",
        "[add|draw|put] {a_after} {at_there}, on the {b} background",
    ),
}
GONE = "(?:is missing|is gone|has been removed|has disappeared)"
ERASE = "(?:remove|delete|erase|take away) the"
NEW = "(?:has been added|is new|appears)"
PUT = "(?:add|draw|put) an?"
BECOMES = "(?:becomes|has become|into)"
SOMEWHERE = r"(?:in|at|on) the [\w ]+?"
# What each kind of change asks for: of the thing before or after it, which trait, said how.
STATEMENTS = {
    "recolour": (
        ("before", "colour", (rf"{{}} \w+ {SOMEWHERE}(?: turns)? {BECOMES}",)),
        ("after", "colour", (rf"{BECOMES} an? {{}}",)),
    ),
    "reshape": (
        ("before", "shape", (rf"\w+ {{}} {SOMEWHERE}(?: turns)? {BECOMES}",)),
        ("after", "shape", (rf"{BECOMES} an? \w+ {{}}",)),
    ),
    "move": (
        (
            "before",
            "place",
            (rf"the \w+ \w+ {place_pattern()}(?: corner| side)?(?: turns)? {BECOMES}",),
        ),
        ("after", "place", (rf"{BECOMES} an? \w+ \w+ {place_pattern()}",)),
    ),
    "remove": (
        ("before", "colour", (rf"{{}} \w+ {GONE}", rf"{ERASE} {{}} \w+")),
        ("before", "shape", (rf"\w+ {{}} {GONE}", rf"{ERASE} \w+ {{}}")),
    ),
    "add": (
        ("after", "colour", (rf"{{}} \w+ {NEW}", rf"{PUT} {{}} \w+")),
        ("after", "shape", (rf"\w+ {{}} {NEW}", rf"{PUT} \w+ {{}}")),
        ("after", "place", (rf"{NEW} {place_pattern()}", rf"{PUT} \w+ \w+ {place_pattern()}")),
    ),
}
BOTH = "the first image [shows|has|contains] {first}. The second [image |one |][shows|has] {second}"
ONLY = "only the {which} [image |one |][shows|has|contains] {thing}"
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
    things = {"before": pair.before, "after": pair.after}
    return tuple(
        _fact(thing, trait, forms)
        for when, trait, forms in STATEMENTS[pair.kind]
        if (thing := things[when])
    )


def difference(rng: random.Random, pair: Pair) -> str:
    """Tell what each image shows, then the difference."""
    change = sentence(_change(rng, pair, DIFFERENCES))
    closing = sentence(say(rng, PAIR_CLOSINGS, b=pair.scenes[0].background))
    parts = maybe(rng, 0.2, PAIR_OPENINGS), both(rng, pair), _compared(rng, pair), change
    return joined(*parts, closing if rng.random() < 0.3 else "")


def edit(rng: random.Random, pair: Pair) -> str:
    """Tell what each image shows, then how to edit the first into the second."""
    change = sentence(_change(rng, pair, EDITS))
    keep = sentence(say(rng, "[leave|keep] [everything else|the rest] as [it is|before]"))
    parts = both(rng, pair), _compared(rng, pair), change
    return joined(*parts, keep if rng.random() < 0.5 else "")


def change_alone(rng: random.Random, pair: Pair, wanted: str) -> str:
    """Tell the difference or the edit and nothing else; `wanted` is "difference" or "edit"."""
    change = sentence(_change(rng, pair, DIFFERENCES if wanted == "difference" else EDITS))
    return f"{_compared(rng, pair)} {change}"


def _compared(rng: random.Random, pair: Pair) -> str:
    """Go through the things: which stay, and what only one of the images shows."""
    first, second = pair.scenes
    same = [f"the {thing.name}" for thing in first.things if thing in second.things]
    verb = "stay" if len(same) > 1 else "stays"
    stay = sentence(f"{listed(same)} {verb} the same") if same else ""
    alone = [
        sentence(say(rng, ONLY, which=which, thing=placed(rng, thing)))
        for which, thing in (("first", pair.before), ("second", pair.after))
        if thing
    ]
    return joined(stay, *alone)


def traits(thing: Thing, other: Thing) -> str:
    """Set the traits of two things side by side: "shape: star, cross, another; place: ..."."""
    pairs = {
        "shape": (thing.shape, other.shape),
        "place": (PLACES[thing.place], PLACES[other.place]),
        "colour": (thing.colour, other.colour),
    }
    return "; ".join(
        f"{name}: {was}, {now}, {'same' if was == now else 'another'}"
        for name, (was, now) in pairs.items()
    )


def _change(rng: random.Random, pair: Pair, templates: Mapping[str, tuple[str, ...]]) -> str:
    before, after = pair.before or pair.after, pair.after or pair.before
    assert before is not None
    assert after is not None
    return say(
        rng,
        templates[pair.kind],
        before=before.name,
        a_after=an(after.name),
        at_here=at(rng, before.place),
        at_there=at(rng, after.place),
        b=pair.scenes[0].background,
    )


def both(rng: random.Random, pair: Pair) -> str:
    """Tell what each image shows."""
    first, second = (listed([placed(rng, t) for t in scene.things]) for scene in pair.scenes)
    return sentence(say(rng, BOTH, first=first, second=second))


def _fact(thing: Thing, trait: str, forms: tuple[str, ...]) -> Fact:
    value, options = {
        "colour": (thing.colour, tuple(COLOURS)),
        "shape": (thing.shape, SHAPES),
        "place": (PLACES[thing.place], PLACES),
    }[trait]
    return Fact("difference", value, options, forms)
