"""Pictures drawn with questions about them, and conversations of several turns."""

import random
from dataclasses import dataclass, replace

from mmspec_world.facts import Fact, JudgedTurn, Query
from mmspec_world.pictures import Drawing, Scene
from mmspec_world.questions import draw_any_query, explain, queries_about, reply
from mmspec_world.split import Split
from mmspec_world.wording import (
    long_description,
    say,
    say_sentence,
    short_description,
    thing_colour,
    thing_slots,
)


@dataclass(frozen=True, slots=True)
class Script:
    """Drawings and turns; `keys` are the keys of all contents, all in the same split."""

    drawings: tuple[Drawing, ...]
    turns: tuple[JudgedTurn, ...]
    keys: tuple[str, ...]


def conversation(rng: random.Random, split: Split) -> Script:
    """Ask two to four questions about one picture; the answers give reasons."""
    drawing, _ = draw_any_query(rng, split)
    queries = queries_about(rng, drawing, rng.randint(2, 4))
    turns = [JudgedTurn(query.question, explain(rng, query), (query.fact,)) for query in queries]
    return _script([(drawing, turns)])


def free_chat(rng: random.Random, split: Split) -> Script:
    """Chat about one picture: greetings, descriptions, questions and follow-ups."""
    drawing, query = draw_any_query(rng, split)
    turns = []
    if rng.random() < 0.15:
        turns.append(JudgedTurn(say(rng, "chat.greeting"), say(rng, "chat.welcome")))
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
        turns.append(JudgedTurn(say(rng, "chat.thanks"), say(rng, "chat.pleasure")))
    return _script([(drawing, turns)])


def picture_swap(rng: random.Random, split: Split) -> Script:
    """Chat about one picture, then show another, and sometimes a third."""
    scenes: list[tuple[Drawing, list[JudgedTurn]]] = []
    for number in range(rng.choice((2, 2, 2, 3))):
        drawing, query = draw_any_query(rng, split)
        turns = [_overview(rng, drawing)] if rng.random() < 0.3 else _exchange(rng, drawing, query)
        if rng.random() < 0.3:
            others = queries_about(rng, drawing, 3)
            turns += [_chat_turn(rng, other) for other in others if _is_new(other, turns)][:1]
        if number:
            question = say(rng, "chat.next_image", q=turns[0].question)
            turns[0] = replace(turns[0], question=question)
        scenes.append((drawing, turns))
    return _script(scenes)


def casual_spelling(rng: random.Random, question: str) -> str:
    """Return the question as people type it, sometimes without capital or question mark."""
    if rng.random() < 0.4:
        question = question[0].lower() + question[1:]
    return question.removesuffix("?") if rng.random() < 0.2 else question


def _script(parts: list[tuple[Drawing, list[JudgedTurn]]]) -> Script:
    turns = []
    for _, (first, *others) in parts:
        turns += [replace(first, images=1), *others]
    drawings = tuple(drawing for drawing, _ in parts)
    return Script(drawings, tuple(turns), tuple(drawing.key for drawing in drawings))


def _same_fact(fact: Fact, other: Fact) -> bool:
    return (fact.category, fact.value) == (other.category, other.value)


def _is_new(query: Query, turns: list[JudgedTurn]) -> bool:
    return not any(_same_fact(query.fact, fact) for turn in turns for fact in turn.facts)


def _overview(rng: random.Random, drawing: Drawing) -> JudgedTurn:
    is_short = rng.random() < 0.5
    text, facts = (short_description if is_short else long_description)(rng, drawing)
    return JudgedTurn(say(rng, "chat.overview" if is_short else "chat.details"), text, facts)


def _chat_turn(rng: random.Random, query: Query) -> JudgedTurn:
    return JudgedTurn(casual_spelling(rng, query.question), reply(rng, query), (query.fact,))


def _exchange(rng: random.Random, drawing: Drawing, query: Query) -> list[JudgedTurn]:
    """A question with its answer; after one for a place, sometimes a follow-up about "it"."""
    turns = [_chat_turn(rng, query)]
    if isinstance(drawing, Scene) and query.fact.category == "position" and query.about:
        thing = next(thing for thing in drawing.things if thing.shape == query.about)
        if rng.random() < 0.5:
            answer = say_sentence(rng, "description.it", **thing_slots(thing))
            turns.append(JudgedTurn(say(rng, "chat.its_colour"), answer, (thing_colour(thing),)))
    return turns
