"""Conversations of several turns."""

import random

from mmspec.bench.world.answers import detailed, explain, reply, short
from mmspec.bench.world.asks import Ask
from mmspec.bench.world.describing import Picture
from mmspec.bench.world.facts import Fact, Turn
from mmspec.bench.world.phrasing import an, say, sentence
from mmspec.bench.world.scene import Scene
from mmspec.bench.world.script import Script, any_ask, asks_about
from mmspec.bench.world.split import Split
from mmspec.bench.world.statements import thing_colour

GREETINGS = ("hello", "hi", "Hello!", "Hi there!", "good morning", "hey")
WELCOMES = (
    "[Hello|Hi]! [What would you like to know about the picture?|How can I help you?|"
    "Ask me anything about the picture.]",
    "[Hello|Hi]! I [am ready to|can] [look at|talk about] the picture with you.",
)
THANKS = ("thanks", "Thank you!", "thank you", "great, thanks", "Thanks a lot!")
PLEASURES = (
    "You are welcome![ Ask me more if you like.|]",
    "[My pleasure|With pleasure]![ Do you have another question?|]",
    "[Any time|Happy to help]![ Let me know if there is more.|]",
)
WHATS = (
    "what is in this picture?",
    "What is in this picture?",
    "What do you see?",
    "what can you see here",
    "What does the image show?",
    "describe the picture",
    "Tell me what you see.",
)
DETAILS = (
    "Describe this image in detail.",
    "Describe the following image.",
    "Can you describe the picture in detail?",
    "Provide a detailed description of the given image.",
    "tell me everything about this picture",
)
NEXT_IMAGES = (
    "Here is another picture. {q}",
    "Now look at this one. {q}",
    "Next image: {q}",
    "And this one? {q}",
    "This is a new picture. {q}",
)
BACK_REFERENCES = ("and what colour is it?", "What colour is it?", "and its colour?")


def conversation(rng: random.Random, split: Split) -> Script:
    """Ask two to four questions about one picture, with explained answers."""
    picture, _ = any_ask(rng, split)
    asks = asks_about(rng, picture, rng.randint(2, 4))
    turns = [Turn(ask.question, explain(rng, ask), (ask.fact,)) for ask in asks]
    return _script([(picture, turns)])


def free_chat(rng: random.Random, split: Split) -> Script:
    """Chat about one picture: greetings, descriptions, questions and follow-ups."""
    picture, ask = any_ask(rng, split)
    turns = [_greeting(rng)] if rng.random() < 0.15 else []
    if rng.random() < 0.5:
        turns.append(_overview(rng, picture))
    asks = asks_about(rng, picture, rng.randint(0 if turns else 1, 3))
    if rng.random() < 0.5:
        asks = [ask, *(other for other in asks[:2] if not _alike(other.fact, ask.fact))]
    for ask in asks:
        turns.extend(_exchange(rng, picture, ask))
    turns = turns or [_overview(rng, picture)]
    if rng.random() < 0.2:
        turns.append(Turn(say(rng, THANKS), say(rng, PLEASURES), ()))
    return _script([(picture, turns)])


def swapped(rng: random.Random, split: Split) -> Script:
    """Chat about one picture, then about another that comes later, sometimes about a third."""
    scenes: list[tuple[Picture, list[Turn]]] = []
    for number in range(rng.choice((2, 2, 2, 3))):
        picture, ask = any_ask(rng, split)
        turns = [_overview(rng, picture)] if rng.random() < 0.3 else _exchange(rng, picture, ask)
        if rng.random() < 0.3:
            others = asks_about(rng, picture, 3)
            turns += [_plain(rng, other) for other in others if _is_new(other, turns)][:1]
        if number:
            question = say(rng, NEXT_IMAGES, q=turns[0].question)
            turns[0] = Turn(question, turns[0].answer, turns[0].facts)
        scenes.append((picture, turns))
    return _script(scenes)


def casual(rng: random.Random, question: str) -> str:
    """Type a question as in a chat, sometimes without capital or question mark."""
    if rng.random() < 0.4:
        question = question[0].lower() + question[1:]
    return question.removesuffix("?") if rng.random() < 0.2 else question


def _script(parts: list[tuple[Picture, list[Turn]]]) -> Script:
    turns = []
    for _, said in parts:
        first, *others = said
        turns += [Turn(first.question, first.answer, first.facts, 1), *others]
    pictures = tuple(picture for picture, _ in parts)
    return Script(pictures, tuple(turns), tuple(picture.key for picture in pictures))


def _alike(fact: Fact, other: Fact) -> bool:
    return (fact.category, fact.value) == (other.category, other.value)


def _is_new(ask: Ask, turns: list[Turn]) -> bool:
    """Whether no turn has stated the answer yet."""
    return not any(_alike(ask.fact, fact) for turn in turns for fact in turn.facts)


def _greeting(rng: random.Random) -> Turn:
    return Turn(say(rng, GREETINGS), say(rng, WELCOMES), ())


def _overview(rng: random.Random, picture: Picture) -> Turn:
    if rng.random() < 0.5:
        text, facts = short(rng, picture)
        return Turn(rng.choice(WHATS), text, facts)
    text, facts = detailed(rng, picture)
    return Turn(rng.choice(DETAILS), text, facts)


def _plain(rng: random.Random, ask: Ask) -> Turn:
    return Turn(casual(rng, ask.question), reply(rng, ask), (ask.fact,))


def _exchange(rng: random.Random, picture: Picture, ask: Ask) -> list[Turn]:
    """Ask, and sometimes ask back about the same thing."""
    turns = [_plain(rng, ask)]
    if isinstance(picture, Scene) and ask.fact.category == "position" and ask.about:
        thing = next(thing for thing in picture.things if thing.shape == ask.about)
        if rng.random() < 0.5:
            it_is = "[the {s} is {c}|it is {a} {s}|it is the {c} {s}]"
            answer = sentence(say(rng, it_is, s=thing.shape, c=thing.colour, a=an(thing.colour)))
            facts: tuple[Fact, ...] = (thing_colour(thing),)
            turns.append(Turn(rng.choice(BACK_REFERENCES), answer, facts))
    return turns
