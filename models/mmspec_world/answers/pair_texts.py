"""Answers about a pair of scenes: the difference, and instructions for the edit."""

import random

from mmspec_world.answers.answers import join_sentences, maybe_sentence
from mmspec_world.answers.phrasing import (
    an,
    join_with_and,
    place_pattern,
    place_phrase,
    say,
    say_sentence,
    sentence,
    thing_at_place,
    things_at_places,
)
from mmspec_world.answers.statements import thing_fact
from mmspec_world.facts import Fact
from mmspec_world.scenes.pairs import Pair
from mmspec_world.scenes.scene import Thing

REMOVED_VERBS = "(?:is missing|is gone|has been removed|has disappeared)"
ERASE = "(?:remove|delete|erase|take away) the"
ADDED_VERBS = "(?:has been added|is new|appears)"
PUT = "(?:add|draw|put) an?"
BECOMES = "(?:becomes|has become|into)"
SOMEWHERE = r"(?:in|at|on) the [\w ]+?"
AT = place_pattern()
STATEMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "recolour": (
        ("before", "colour", rf"{{}} \w+ {SOMEWHERE}(?: turns)? {BECOMES}"),
        ("after", "colour", rf"{BECOMES} an? {{}}"),
    ),
    "reshape": (
        ("before", "shape", rf"\w+ {{}} {SOMEWHERE}(?: turns)? {BECOMES}"),
        ("after", "shape", rf"{BECOMES} an? \w+ {{}}"),
    ),
    "move": (
        ("before", "place", rf"the \w+ \w+ {AT}(?: corner| side)?(?: turns)? {BECOMES}"),
        ("after", "place", rf"{BECOMES} an? \w+ \w+ {AT}"),
    ),
    "remove": (
        ("before", "colour", rf"{{}} \w+ {REMOVED_VERBS}", rf"{ERASE} {{}} \w+"),
        ("before", "shape", rf"\w+ {{}} {REMOVED_VERBS}", rf"{ERASE} \w+ {{}}"),
    ),
    "add": (
        ("after", "colour", rf"{{}} \w+ {ADDED_VERBS}", rf"{PUT} {{}} \w+"),
        ("after", "shape", rf"\w+ {{}} {ADDED_VERBS}", rf"{PUT} \w+ {{}}"),
        ("after", "place", rf"{ADDED_VERBS} {AT}", rf"{PUT} \w+ \w+ {AT}"),
    ),
}
"""By kind of change, the facts to state: the thing before or after it, a trait, and the forms."""


def pair_facts(pair: Pair) -> tuple[Fact, ...]:
    """Facts about the difference, with the forms of `difference_text` and of `edit_text`."""
    things = {"before": pair.before, "after": pair.after}
    return tuple(
        thing_fact("difference", thing, trait, *forms)
        for when, trait, *forms in STATEMENTS[pair.kind]
        if (thing := things[when])
    )


def difference_text(rng: random.Random, pair: Pair) -> str:
    """Describe both images, then name the difference."""
    change = sentence(_change(rng, pair, "difference"))
    closing = say_sentence(rng, "pair.closing", b=pair.scenes[0].background)
    opening = maybe_sentence(rng, 0.2, "pair.opening")
    parts = opening, describe_both(rng, pair), _comparison(rng, pair), change
    return join_sentences(*parts, closing if rng.random() < 0.3 else "")


def edit_text(rng: random.Random, pair: Pair) -> str:
    """Describe both images, then say how to edit the first into the second."""
    change = sentence(_change(rng, pair, "edit"))
    keep = say_sentence(rng, "pair.keep")
    parts = describe_both(rng, pair), _comparison(rng, pair), change
    return join_sentences(*parts, keep if rng.random() < 0.5 else "")


def change_text(rng: random.Random, pair: Pair, kind: str) -> str:
    """Text that says what a pair's images have in common, then names the one change between them.

    kind: "difference", or "edit" for the change as an instruction.
    """
    change = sentence(_change(rng, pair, kind))
    return f"{_comparison(rng, pair)} {change}"


def _comparison(rng: random.Random, pair: Pair) -> str:
    """Name the things that stay, then those that only one image shows."""
    first, second = pair.scenes
    same = [f"the {thing.name}" for thing in first.things if thing in second.things]
    verb = "stay" if len(same) > 1 else "stays"
    stay = sentence(f"{join_with_and(same)} {verb} the same") if same else ""
    alone = [
        say_sentence(rng, "pair.only", which=which, thing=thing_at_place(rng, thing))
        for which, thing in (("first", pair.before), ("second", pair.after))
        if thing
    ]
    return join_sentences(stay, *alone)


def compare_traits(thing: Thing, other: Thing) -> str:
    """Compare two things trait by trait: "shape: star, cross, another; place: ..."."""
    pairs = (
        (name, thing.traits[name], other.traits[name]) for name in ("shape", "place", "colour")
    )
    return "; ".join(
        f"{name}: {was}, {now}, {'same' if was == now else 'another'}" for name, was, now in pairs
    )


def _change(rng: random.Random, pair: Pair, kind: str) -> str:
    before, after = pair.before or pair.after, pair.after or pair.before
    assert before is not None
    assert after is not None
    return say(
        rng,
        f"{kind}.{'change' if pair.before and pair.after else pair.kind}",
        before=before.name,
        a_after=an(after.name),
        at_here=place_phrase(rng, before.place),
        at_there=place_phrase(rng, after.place),
        b=pair.scenes[0].background,
    )


def describe_both(rng: random.Random, pair: Pair) -> str:
    """Describe the first image, then the second."""
    first, second = (things_at_places(rng, scene.things) for scene in pair.scenes)
    return say_sentence(rng, "pair.both", first=first, second=second)
