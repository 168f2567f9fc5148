"""Conversations of several turns."""

import random

from mmspec_world.answers.answers import explain, long_description, reply, short_description
from mmspec_world.answers.descriptions import Drawing
from mmspec_world.answers.phrasing import an, say, say_sentence
from mmspec_world.answers.statements import thing_colour
from mmspec_world.facts import Fact, Query, Turn
from mmspec_world.scenes.scene import Scene
from mmspec_world.split import Split
from mmspec_world.tasks.draw_query import draw_any_query, queries_about
from mmspec_world.tasks.script import Script


def conversation(rng: random.Random, split: Split) -> Script:
    """Ask two to four questions about one picture; the answers give reasons."""
    drawing, _ = draw_any_query(rng, split)
    queries = queries_about(rng, drawing, rng.randint(2, 4))
    turns = [Turn(query.question, explain(rng, query), (query.fact,)) for query in queries]
    return _script([(drawing, turns)])


def free_chat(rng: random.Random, split: Split) -> Script:
    """Chat about one picture: greetings, descriptions, questions and follow-ups."""
    drawing, query = draw_any_query(rng, split)
    turns = [_greeting(rng)] if rng.random() < 0.15 else []
    if rng.random() < 0.5:
        turns.append(_overview(rng, drawing))
    queries = queries_about(rng, drawing, rng.randint(0 if turns else 1, 3))
    if rng.random() < 0.5:
        queries = [
            query,
            *(other for other in queries[:2] if not _same_fact(other.fact, query.fact)),
        ]
    for query in queries:
        turns.extend(_exchange(rng, drawing, query))
    turns = turns or [_overview(rng, drawing)]
    if rng.random() < 0.2:
        turns.append(Turn(say(rng, "chat.thanks"), say(rng, "chat.pleasure"), ()))
    return _script([(drawing, turns)])


def picture_swap(rng: random.Random, split: Split) -> Script:
    """Chat about one picture, then show another, and sometimes a third."""
    scenes: list[tuple[Drawing, list[Turn]]] = []
    for number in range(rng.choice((2, 2, 2, 3))):
        drawing, query = draw_any_query(rng, split)
        turns = [_overview(rng, drawing)] if rng.random() < 0.3 else _exchange(rng, drawing, query)
        if rng.random() < 0.3:
            others = queries_about(rng, drawing, 3)
            turns += [_chat_turn(rng, other) for other in others if _is_new(other, turns)][:1]
        if number:
            question = say(rng, "chat.next_image", q=turns[0].question)
            turns[0] = Turn(question, turns[0].answer, turns[0].facts)
        scenes.append((drawing, turns))
    return _script(scenes)


def casual_spelling(rng: random.Random, question: str) -> str:
    """Return the question as people type it, sometimes without capital or question mark."""
    if rng.random() < 0.4:
        question = question[0].lower() + question[1:]
    return question.removesuffix("?") if rng.random() < 0.2 else question


def _script(parts: list[tuple[Drawing, list[Turn]]]) -> Script:
    turns = []
    for _, (first, *others) in parts:
        turns += [Turn(first.question, first.answer, first.facts, 1), *others]
    drawings = tuple(drawing for drawing, _ in parts)
    return Script(drawings, tuple(turns), tuple(drawing.key for drawing in drawings))


def _same_fact(fact: Fact, other: Fact) -> bool:
    return (fact.category, fact.value) == (other.category, other.value)


def _is_new(query: Query, turns: list[Turn]) -> bool:
    return not any(_same_fact(query.fact, fact) for turn in turns for fact in turn.facts)


def _greeting(rng: random.Random) -> Turn:
    return Turn(say(rng, "chat.greeting"), say(rng, "chat.welcome"), ())


def _overview(rng: random.Random, drawing: Drawing) -> Turn:
    if rng.random() < 0.5:
        text, facts = short_description(rng, drawing)
        return Turn(say(rng, "chat.overview"), text, facts)
    text, facts = long_description(rng, drawing)
    return Turn(say(rng, "chat.details"), text, facts)


def _chat_turn(rng: random.Random, query: Query) -> Turn:
    return Turn(casual_spelling(rng, query.question), reply(rng, query), (query.fact,))


def _exchange(rng: random.Random, drawing: Drawing, query: Query) -> list[Turn]:
    """A question with its answer; after one for a place, sometimes a follow-up about "it"."""
    turns = [_chat_turn(rng, query)]
    if isinstance(drawing, Scene) and query.fact.category == "position" and query.about:
        thing = next(thing for thing in drawing.things if thing.shape == query.about)
        if rng.random() < 0.5:
            slots = {"s": thing.shape, "c": thing.colour, "a": an(thing.colour)}
            answer = say_sentence(rng, "description.it", **slots)
            facts: tuple[Fact, ...] = (thing_colour(thing),)
            turns.append(Turn(say(rng, "chat.its_colour"), answer, facts))
    return turns
