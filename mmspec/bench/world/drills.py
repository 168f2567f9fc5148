"""Drills: many short look-ups in a row, in a picture or in a list of what one shows.

Answers in sentences give few examples of finding one thing by another; here nearly every token of
an answer must be looked up, and the question says in which order.
"""

import random
from collections.abc import Callable, Sequence

from mmspec.bench.world.asks import ask_relation, by_shape, tally
from mmspec.bench.world.comparing import traits
from mmspec.bench.world.facts import Turn
from mmspec.bench.world.palette import COLOURS, LETTERS, NUMBERS, PLACES, SHAPES
from mmspec.bench.world.phrasing import listed, placed, plural, sentence
from mmspec.bench.world.scene import Scene, Thing, many_things, scene_of, two_apart
from mmspec.bench.world.script import Script
from mmspec.bench.world.split import Split, within

CHOICES: tuple[tuple[str, ...], ...] = (
    tuple(COLOURS),
    SHAPES,
    PLACES,
    NUMBERS,
    ("left of", "right of", "above", "below"),
)
Drill = Callable[[random.Random, Scene], tuple[str, str]]
"""Makes a question and its answer."""


def drill(rng: random.Random, split: Split) -> Script:
    """Look things up in a picture, or in a list of things that are not drawn."""
    if rng.random() < 0.5:
        scene = within(split, rng.choice((two_apart, two_apart, many_things)), rng)
        return Script((scene,), _turns(rng, scene, 3, "", 1), (scene.key,))
    scene = within(split, all_different, rng)
    listing = sentence(listed([placed(rng, thing) for thing in scene.things])) + " "
    return Script((), _turns(rng, scene, 5, listing, 0), (scene.key,))


def all_different(rng: random.Random) -> Scene:
    """Choose three to six things that share neither shape nor colour."""
    count = rng.randint(3, len(SHAPES))
    parts = (rng.sample(each, count) for each in (tuple(COLOURS), SHAPES, range(len(PLACES))))
    return scene_of("white", [Thing(*traits) for traits in zip(*parts, strict=True)])


def _turns(
    rng: random.Random, scene: Scene, count: int, listing: str, images: int
) -> tuple[Turn, ...]:
    said = [rng.choice(DRILLS)(rng, scene) for _ in range(count)]
    (question, answer), *others = said
    first = Turn(listing + question, answer, (), images)
    return first, *(Turn(question, answer, ()) for question, answer in others)


def _by_shape(rng: random.Random, scene: Scene) -> tuple[str, str]:
    things = _shuffled(rng, scene.shape_singles() or scene.things[:1])
    answer = sentence(by_shape(*things))
    return f"Colour and place: {', '.join(thing.shape for thing in things)}?", answer


def _by_colour(rng: random.Random, scene: Scene) -> tuple[str, str]:
    things = _shuffled(rng, scene.colour_singles() or scene.things[:1])
    answer = "; ".join(f"{thing.colour}: {thing.shape}, {PLACES[thing.place]}" for thing in things)
    return f"Shape and place: {', '.join(thing.colour for thing in things)}?", sentence(answer)


def _by_place(rng: random.Random, scene: Scene) -> tuple[str, str]:
    things = _shuffled(rng, scene.things)
    answer = "; ".join(f"{PLACES[thing.place]}: {thing.name}" for thing in things)
    return f"What is at: {', '.join(PLACES[thing.place] for thing in things)}?", sentence(answer)


def _which(rng: random.Random, scene: Scene) -> tuple[str, str]:
    wanted = rng.choice((rng.choice(scene.things).shape, rng.choice(SHAPES)))
    answer = ", ".join(
        f"{thing.name} {'yes' if thing.shape == wanted else 'no'}" for thing in scene.things
    )
    return f"Which are {plural(wanted)}?", sentence(answer)


def _counted(rng: random.Random, scene: Scene) -> tuple[str, str]:
    shape = rng.choice(sorted({thing.shape for thing in scene.things}))
    counted = [thing for thing in scene.things if thing.shape == shape]
    return f"Count the {plural(shape)}.", tally(rng, scene, counted)


def _side(rng: random.Random, scene: Scene) -> tuple[str, str]:
    if ask := ask_relation(rng, scene):
        return ask.question, f"{ask.steps} {sentence(ask.clause)}"
    return _which(rng, scene)


def _compared(rng: random.Random, scene: Scene) -> tuple[str, str]:
    """Compare a thing with another that differs from it in one or two traits, or in none."""
    thing = rng.choice(scene.things)
    colour, shape = rng.choice(tuple(COLOURS)), rng.choice(SHAPES)
    other = Thing(
        rng.choice((thing.colour, thing.colour, colour)),
        rng.choice((thing.shape, thing.shape, shape)),
        rng.choice((thing.place, thing.place, rng.randrange(len(PLACES)))),
    )
    question = f"Compare: {placed(rng, thing)}; {placed(rng, other)}."
    return question, sentence(traits(thing, other))


def _lettered(rng: random.Random, _scene: Scene) -> tuple[str, str]:
    """Give choices their letters back."""
    choices = rng.sample(rng.choice(CHOICES), 4)
    listing = " ".join(f"({LETTERS[i]}) {choice}" for i, choice in enumerate(choices))
    asked = rng.sample(choices, 3)
    answer = "; ".join(f"{choice} ({LETTERS[choices.index(choice)]})" for choice in asked)
    return f"Choices: {listing}. Letters: {', '.join(asked)}?", sentence(answer)


def _shuffled(rng: random.Random, things: Sequence[Thing]) -> list[Thing]:
    return rng.sample(things, len(things))


# What takes two look-ups and a comparison is practised twice as much.
DRILLS: tuple[Drill, ...] = (
    _by_shape,
    _by_colour,
    _by_place,
    _which,
    _counted,
    _lettered,
    *2 * (_side, _compared),
)
