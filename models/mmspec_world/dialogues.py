"""Pictures drawn with questions about them, and conversations of several turns."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mmspec_world import pictures, questions
from mmspec_world.facts import Fact, JudgedTurn, Query
from mmspec_world.pictures import Drawing, Scene
from mmspec_world.split import Split, draw_in_split
from mmspec_world.wording import Narrator, thing_colour, thing_slots


@dataclass(frozen=True, slots=True)
class Script:
    """Drawings and turns; `keys` are the keys of all contents, all in the same split."""

    drawings: tuple[Drawing, ...]
    turns: tuple[JudgedTurn, ...]
    keys: tuple[str, ...]


Maker = Callable[[random.Random], Drawing]
QueryMaker = Callable[..., Query | None]
"""Function that asks a question about a drawing; None if the drawing does not allow it."""


SCENE_QUERIES: tuple[tuple[Maker, QueryMaker], ...] = (
    (pictures.few_things, questions.colour_query),
    (pictures.few_things, questions.shape_query),
    (pictures.many_things, questions.count_query),
    (pictures.few_things, questions.place_query),
    (pictures.few_things, questions.thing_at_query),
    (pictures.two_apart, questions.relation_query),
    (pictures.few_things, questions.background_query),
)
# A model needs more examples of counting and of relations than of other questions.
SCENE_WEIGHTS = (2, 2, 4, 2, 2, 3, 2)
CHART_QUERIES = (questions.extreme_bar_query, *[questions.bar_value_query] * 2)
WORD_QUERIES = (*[questions.word_query] * 3, questions.ink_query)


def draw_for_query(
    rng: Narrator, split: Split, make: Maker, maker: QueryMaker
) -> tuple[Drawing, Query]:
    """Draw contents of the split until `maker` has a question about one; return both."""
    while True:
        drawing = draw_in_split(split, make, rng)
        if query := maker(rng, drawing):
            return drawing, query


def draw_query(kind: str, rng: Narrator, split: Split) -> tuple[Drawing, Query]:
    """Choose a question and draw what it is about.

    kind: "scene", "chart", "word", or "presence", which asks whether a thing is in a scene.
    """
    if kind == "presence":
        return draw_for_query(rng, split, pictures.two_apart, questions.presence_query)
    if kind == "scene":
        return draw_for_query(rng, split, *rng.choices(SCENE_QUERIES, SCENE_WEIGHTS)[0])
    if kind == "chart":
        return draw_for_query(rng, split, pictures.bar_chart, rng.choice(CHART_QUERIES))
    return draw_for_query(rng, split, pictures.written_word, rng.choice(WORD_QUERIES))


def draw_any_query(rng: Narrator, split: Split) -> tuple[Drawing, Query]:
    """Draw any kind of picture, mostly a scene, and a question about it."""
    return draw_query(rng.choice(("scene", "scene", "scene", "chart", "word")), rng, split)


def queries_about(rng: Narrator, drawing: Drawing, count: int) -> list[Query]:
    """Return up to `count` different questions about a drawing."""
    makers: Sequence[QueryMaker]
    match drawing:
        case pictures.Scene():
            makers = [maker for _, maker in SCENE_QUERIES]
            if all(drawing.count(thing.shape) == 1 for thing in drawing.things):
                makers = [maker for maker in makers if maker is not questions.count_query]
        case pictures.Chart():
            makers = (
                questions.extreme_bar_query,
                questions.bar_value_query,
                questions.background_query,
            )
        case pictures.Word():
            makers = (questions.word_query, questions.ink_query, questions.background_query)
    queries = (maker(rng, drawing) for maker in rng.sample(list(makers), len(makers)))
    return [query for query in queries if query][:count]


def conversation(rng: Narrator, split: Split) -> Script:
    """Ask two to four questions about one picture; the answers give reasons."""
    drawing, _ = draw_any_query(rng, split)
    queries = queries_about(rng, drawing, rng.randint(2, 4))
    turns = [JudgedTurn(query.question, rng.explain(query), (query.fact,)) for query in queries]
    return _script([(drawing, turns)])


def free_chat(rng: Narrator, split: Split) -> Script:
    """Chat about one picture: greetings, descriptions, questions and follow-ups."""
    drawing, query = draw_any_query(rng, split)
    turns = []
    if rng.random() < 0.15:
        turns.append(JudgedTurn(rng.say("chat.greeting"), rng.say("chat.welcome")))
    if rng.random() < 0.5:
        turns.append(_overview(rng, drawing))
    queries = queries_about(rng, drawing, rng.randint(0 if turns else 1, 3))
    if rng.random() < 0.5:
        others = [other for other in queries[:2] if not _same_fact(other.fact, query.fact)]
        queries = [query, *others]
    for query in queries:
        turns.extend(_exchange(rng, drawing, query))
    turns = turns or [_overview(rng, drawing)]
    if rng.random() < 0.2:
        turns.append(JudgedTurn(rng.say("chat.thanks"), rng.say("chat.pleasure")))
    return _script([(drawing, turns)])


def picture_swap(rng: Narrator, split: Split) -> Script:
    """Chat about one picture, then show another, and sometimes a third."""
    scenes: list[tuple[Drawing, list[JudgedTurn]]] = []
    for number in range(rng.choice((2, 2, 2, 3))):
        drawing, query = draw_any_query(rng, split)
        turns = [_overview(rng, drawing)] if rng.random() < 0.3 else _exchange(rng, drawing, query)
        if rng.random() < 0.3:
            facts = [fact for turn in turns for fact in turn.facts]
            others = queries_about(rng, drawing, 3)
            new = (other for other in others if not any(_same_fact(other.fact, f) for f in facts))
            turns += [_chat_turn(rng, other) for other in new][:1]
        if number:
            question = rng.say("chat.next_image", q=turns[0].question)
            turns[0] = replace(turns[0], question=question)
        scenes.append((drawing, turns))
    return _script(scenes)


def _script(parts: list[tuple[Drawing, list[JudgedTurn]]]) -> Script:
    turns = []
    for _, (first, *others) in parts:
        turns += [replace(first, images=1), *others]
    drawings = tuple(drawing for drawing, _ in parts)
    return Script(drawings, tuple(turns), tuple(drawing.key for drawing in drawings))


def _same_fact(fact: Fact, other: Fact) -> bool:
    return (fact.category, fact.value) == (other.category, other.value)


def _overview(rng: Narrator, drawing: Drawing) -> JudgedTurn:
    is_short = rng.random() < 0.5
    text, facts = rng.description(drawing, short=is_short)
    return JudgedTurn(rng.say("chat.overview" if is_short else "chat.details"), text, facts)


def _chat_turn(rng: Narrator, query: Query) -> JudgedTurn:
    """A question as people type it, sometimes without capital or question mark."""
    question = query.question
    if rng.random() < 0.4:
        question = question[0].lower() + question[1:]
    question = question.removesuffix("?") if rng.random() < 0.2 else question
    return JudgedTurn(question, rng.reply(query), (query.fact,))


def _exchange(rng: Narrator, drawing: Drawing, query: Query) -> list[JudgedTurn]:
    """A question with its answer; after one for a place, sometimes a follow-up about "it"."""
    turns = [_chat_turn(rng, query)]
    if isinstance(drawing, Scene) and query.fact.category == "position" and query.about:
        thing = next(thing for thing in drawing.things if thing.shape == query.about)
        if rng.random() < 0.5:
            answer = rng.say_sentence("description.it", **thing_slots(thing))
            turns.append(JudgedTurn(rng.say("chat.its_colour"), answer, (thing_colour(thing),)))
    return turns
