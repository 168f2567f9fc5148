"""Many short questions in a row, each answered by finding one thing in a picture or a list.

Full sentences contain few tokens that a model must look up. In a drill nearly every token is one,
in the order that the question gives."""

from collections.abc import Callable
from functools import partial

from mmspec_world.dialogues import Script
from mmspec_world.drawing import COLOURS, LETTERS, NUMBERS, PLACES, SHAPES
from mmspec_world.facts import JudgedTurn
from mmspec_world.pictures import Scene, Thing, many_things, scene_of, two_apart
from mmspec_world.questions import BY_SHAPE, SIDES, relation_query, tally
from mmspec_world.split import Split, draw_in_split
from mmspec_world.wording import Narrator, lettered, plural, sentence

CHOICES: tuple[tuple[str, ...], ...] = (tuple(COLOURS), SHAPES, PLACES, NUMBERS, SIDES)
COMPARED = ("shape", "place", "colour")
Lookup = Callable[[Narrator, Scene], tuple[str, str]]
"""Function that returns a question about a scene, and its answer."""


def lookup_drill(rng: Narrator, split: Split) -> Script:
    """Ask short questions, each about one thing, on a picture or on a written list of things."""
    if rng.random() < 0.5:
        scene = draw_in_split(split, rng.choice((two_apart, two_apart, many_things)), rng)
        return Script((scene,), _turns(rng, scene, 3, "", 1), (scene.key,))
    scene = draw_in_split(split, all_different, rng)
    listing = sentence(rng.things_at_places(scene.things)) + " "
    return Script((), _turns(rng, scene, 5, listing, 0), (scene.key,))


def all_different(rng: Narrator) -> Scene:
    """Draw a scene of three to six things with different shapes and colours."""
    count = rng.randint(3, len(SHAPES))
    parts = (rng.sample(values, count) for values in (tuple(COLOURS), SHAPES, range(len(PLACES))))
    return scene_of("white", [Thing(*traits) for traits in zip(*parts, strict=True)])


def _turns(
    rng: Narrator, scene: Scene, count: int, listing: str, images: int
) -> tuple[JudgedTurn, ...]:
    lookups = [rng.choice(LOOKUPS)(rng, scene) for _ in range(count)]
    (question, answer), *others = lookups
    first = JudgedTurn(listing + question, answer, images=images)
    return first, *(JudgedTurn(question, answer) for question, answer in others)


def _traits(by: str, question: str, answer: str, rng: Narrator, scene: Scene) -> tuple[str, str]:
    """Ask for traits of the things whose trait `by` is unique in the scene."""
    things = scene.singles(by) or scene.things[:1]
    things = rng.sample(things, len(things))
    asked = ", ".join(thing.traits[by] for thing in things)
    answers = "; ".join(answer.format(**thing.traits) for thing in things)
    return f"{question}: {asked}?", sentence(answers)


def _which(rng: Narrator, scene: Scene) -> tuple[str, str]:
    shape = rng.choice((rng.choice(scene.things).shape, rng.choice(SHAPES)))
    answer = ", ".join(
        f"{thing.name} {'yes' if thing.shape == shape else 'no'}" for thing in scene.things
    )
    return f"Which are {plural(shape)}?", sentence(answer)


def _count(rng: Narrator, scene: Scene) -> tuple[str, str]:
    shape = rng.choice(sorted({thing.shape for thing in scene.things}))
    return f"Count the {plural(shape)}.", tally(rng, scene, {shape})


def _side(rng: Narrator, scene: Scene) -> tuple[str, str]:
    if query := relation_query(rng, scene):
        return query.question, f"{query.steps} {sentence(query.clause)}"
    return _which(rng, scene)


def _comparison(rng: Narrator, scene: Scene) -> tuple[str, str]:
    thing = rng.choice(scene.things)
    colour, shape = rng.choice(tuple(COLOURS)), rng.choice(SHAPES)
    other = Thing(
        rng.choice((thing.colour, thing.colour, colour)),
        rng.choice((thing.shape, thing.shape, shape)),
        rng.choice((thing.place, thing.place, rng.randrange(len(PLACES)))),
    )
    question = f"Compare: {rng.thing_at_place(thing)}; {rng.thing_at_place(other)}."
    pairs = ((trait, thing.traits[trait], other.traits[trait]) for trait in COMPARED)
    answer = "; ".join(
        f"{trait}: {was}, {now}, {'same' if was == now else 'another'}" for trait, was, now in pairs
    )
    return question, sentence(answer)


def _letter_choices(rng: Narrator, _scene: Scene) -> tuple[str, str]:
    choices = rng.sample(rng.choice(CHOICES), 4)
    subset = rng.sample(choices, 3)
    answer = "; ".join(f"{choice} ({LETTERS[choices.index(choice)]})" for choice in subset)
    return f"Choices: {lettered(choices)}. Letters: {', '.join(subset)}?", sentence(answer)


# Two look-ups and a comparison are harder, so these come twice as often.
LOOKUPS: tuple[Lookup, ...] = (
    partial(_traits, "shape", "Colour and place", BY_SHAPE),
    partial(_traits, "colour", "Shape and place", "{colour}: {shape}, {place}"),
    partial(_traits, "place", "What is at", "{place}: {colour} {shape}"),
    _which,
    _count,
    _letter_choices,
    *2 * (_side, _comparison),
)
