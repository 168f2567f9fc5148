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
    place_name,
    place_pattern,
    placed,
    say,
    sentence,
)
from mmspec.bench.world.scene import Thing

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
GONE = "(?:is missing|is gone|has been removed|has disappeared)"
ERASE = "(?:remove|delete|erase|take away) the"
NEW = "(?:has been added|is new|appears)"
PUT = "(?:add|draw|put) an?"
BECOMES = "(?:turns into|turned into|becomes)"
# What each kind of change asks for: of the thing before or after it, which trait, said how.
STATEMENTS = {
    "recolour": (
        ("before", "colour", (r"from {} to \w+",)),
        ("after", "colour", (r"from \w+ to {}",)),
    ),
    "reshape": (
        ("before", "shape", (rf"{{}} (?:has )?{BECOMES}",)),
        ("after", "shape", (rf"{BECOMES} an? \w+ {{}}",)),
    ),
    "move": (
        ("before", "place", (r"from the {}",)),
        ("after", "place", (r"from the [\w ]+? to the {}",)),
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
    """Say which things stay, and what only one image shows or how the thing that differs does."""
    first, second = pair.scenes
    same = [f"the {thing.name}" for thing in first.things if thing in second.things]
    verb = "stay" if len(same) > 1 else "stays"
    stay = sentence(f"{listed(same)} {verb} the same") if same else ""
    if pair.before and pair.after:
        return joined(stay, sentence(traits(pair.before, pair.after)))
    which, thing = ("first", pair.before) if pair.before else ("second", pair.after)
    assert thing is not None
    return joined(stay, sentence(say(rng, ONLY, which=which, thing=placed(rng, thing))))


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
        shape=before.shape,
        was=before.colour,
        now=after.colour,
        before=before.name,
        a_after=an(after.name),
        here=place_name(rng, before.place),
        there=place_name(rng, after.place),
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
