"""Answers to queries, descriptions, and texts about pairs, stories and clips."""

import random

from mmspec_world.drawing import NUMBERS
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import Chart, Scene, Thing, Word
from mmspec_world.sequences import Pair
from mmspec_world.wording import (
    Drawing,
    an,
    background_fact,
    bar_fact,
    bar_in_words,
    describe,
    ink_fact,
    join_with_and,
    place_pattern,
    place_phrase,
    say,
    say_sentence,
    sentence,
    thing_at_place,
    thing_colour,
    thing_fact,
    thing_place,
    things_at_places,
    word_fact,
)


def explain(rng: random.Random, query: Query) -> str:
    """Answer with the evidence: before a derived answer, before or after any other."""
    if query.derived or rng.random() < 0.65:
        parts = [maybe_sentence(rng, 0.4, "answer.opening"), query.evidence, conclude(rng, query)]
    else:
        verdict = f"{query.verdict}, " if query.verdict else ""
        parts = [sentence(verdict + query.clause), query.evidence]
    return join_sentences(*parts, maybe_sentence(rng, 0.3, "answer.closing"))


def conclude(rng: random.Random, query: Query) -> str:
    """State the steps and the answer, without the evidence."""
    link = "answer.verdict" if query.verdict else "answer.conclusion"
    return join_sentences(query.steps, say_sentence(rng, link, c=query.clause, v=query.verdict))


def reply(rng: random.Random, query: Query) -> str:
    """Answer as in a chat: mostly one sentence, or with reasons if the answer is derived."""
    if query.derived or rng.random() < 0.3:
        return explain(rng, query)
    clause = say_sentence(rng, "answer.short", c=query.clause)
    return join_sentences(clause, query.evidence if rng.random() < 0.25 else "")


def long_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in several sentences; also return the facts that they state."""
    body = join_sentences(_kind(rng, drawing), describe(rng, drawing), _extra(rng, drawing))
    ground = say_sentence(rng, "description.background", b=drawing.background)
    text = join_sentences(body, ground) if rng.random() < 0.7 else join_sentences(ground, body)
    facts = (*_facts(rng, drawing), background_fact(drawing.background))
    return join_sentences(text, maybe_sentence(rng, 0.4, "description.mood")), facts


def short_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in one sentence; also return the facts that it states."""
    text = say_sentence(
        rng, "caption.sentence", things=_short_text(rng, drawing), b=drawing.background
    )
    return text, (*_facts(rng, drawing, short=True), background_fact(drawing.background))


def maybe_sentence(rng: random.Random, chance: float, phrase: str) -> str:
    """Return the phrase as a sentence with probability `chance`, else an empty text."""
    return say_sentence(rng, phrase) if rng.random() < chance else ""


def join_sentences(*parts: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, parts))


def _kind(rng: random.Random, drawing: Drawing) -> str:
    number = ""
    if isinstance(drawing, Scene):
        count = len(drawing.things)
        number = f"{NUMBERS[count - 1]} {'shape' if count == 1 else 'shapes'}"
    return say_sentence(rng, f"description.{type(drawing).__name__.lower()}", n=number)


def _extra(rng: random.Random, drawing: Drawing) -> str:
    """Name the tallest bar of a chart, or a word and its colour; empty for a scene."""
    match drawing:
        case Chart():
            return say_sentence(rng, "description.tallest", c=drawing.tallest.colour)
        case Word():
            return say_sentence(rng, "description.text", w=drawing.text, c=drawing.colour)
        case Scene():
            return ""


def _facts(rng: random.Random, drawing: Drawing, *, short: bool = False) -> tuple[Fact, ...]:
    """Return the facts that a long or short description states, without the background."""
    match drawing:
        case Scene():
            stated = (thing_colour,) if short else (thing_colour, thing_place)
            return tuple(fact(thing) for thing in drawing.singles("shape") for fact in stated)
        case Chart():
            return tuple(map(bar_fact, [drawing.tallest] if short else drawing.bars))
        case Word():
            return word_fact(rng, drawing), ink_fact(drawing)


def _short_text(rng: random.Random, drawing: Drawing) -> str:
    match drawing:
        case Scene():
            return things_at_places(rng, drawing.things)
        case Chart():
            count, bar = NUMBERS[len(drawing.bars) - 1], bar_in_words(rng, drawing.tallest)
            return say(rng, "caption.chart", n=count, bar=bar)
        case Word():
            return say(rng, "caption.word", w=drawing.text, c=drawing.colour)


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
