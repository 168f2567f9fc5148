"""The wording of texts: phrases with random choices, facts with their forms, and answers."""

import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from mmspec_world.drawing import BACKGROUNDS, COLOURS, LETTERS, NUMBERS, PLACES, SHAPES
from mmspec_world.facts import SLOT, Fact, Query
from mmspec_world.pictures import Bar, Chart, Drawing, Scene, Thing, Word, written_word

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_OPTIONS = {"colour": tuple(COLOURS), "shape": SHAPES, "place": PLACES}


@cache
def _phrases() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text(encoding="utf-8"))


class Narrator(random.Random):
    """A random generator that words texts with its choices."""

    def say(self, phrase: str, **slots: str) -> str:
        """Choose a text of the phrase `section.name` in phrases.toml, and fill in its slots."""
        section, _, name = phrase.partition(".")
        texts = _phrases()[section][name]
        text = texts if isinstance(texts, str) else self.choice(texts)
        while _CHOICE.search(text):
            text = _CHOICE.sub(lambda match: self.choice(match.group(1).split("|")), text)
        return " ".join(text.format(**slots).split())

    def say_sentence(self, phrase: str, **slots: str) -> str:
        """Fill in a phrase as `say` does, and return it as a sentence."""
        return sentence(self.say(phrase, **slots))

    def maybe_sentence(self, chance: float, phrase: str) -> str:
        """Return the phrase as a sentence with probability `chance`, else an empty text."""
        return self.say_sentence(phrase) if self.random() < chance else ""

    def place_phrase(self, place: int) -> str:
        """Return a place with its preposition: "in the top left corner"."""
        return self.say(f"place.{PLACES[place]}")

    def place_name(self, place: int) -> str:
        """Return a place without preposition and article: "top left corner"."""
        return self.place_phrase(place).partition(" the ")[2]

    def thing_at_place(self, thing: Thing) -> str:
        """Return a thing with its place: "a red star in the centre"."""
        return f"{an(thing.name)} {self.place_phrase(thing.place)}"

    def things_at_places(self, things: Sequence[Thing]) -> str:
        """Return things with their places: "a red star in the centre and a blue cross at ..."."""
        return join_with_and([self.thing_at_place(thing) for thing in things])

    def word_fact(self, word: Word) -> Fact:
        """Return the written word as a fact; the other options are random words."""
        others = {written_word(self).text for _ in range(7)} - {word.text}
        return fact("word", word.text, (word.text, *sorted(others)), "word")

    def describe(self, drawing: Drawing) -> str:
        """Describe everything in a drawing except its background."""
        match drawing:
            case Scene():
                if self.random() < 0.7:
                    things = self.things_at_places(drawing.things)
                    return self.say_sentence("description.all_things", things=things)
                return " ".join(self._thing_sentence(thing) for thing in drawing.things)
            case Chart(bars=bars):
                names = join_with_and([f"the {self.bar_in_words(bar)}" for bar in bars])
                return self.say_sentence("description.bars", n=NUMBERS[len(bars) - 1], bars=names)
            case Word(text=text, colour=c):
                letters, count = ", ".join(text), NUMBERS[len(text) - 1]
                return self.say_sentence("description.letters", letters=letters, c=c, n=count)

    def _thing_sentence(self, thing: Thing) -> str:
        there = self.place_phrase(thing.place)
        return self.say_sentence("description.one_thing", there=there, thing=an(thing.name))

    def bar_in_words(self, bar: Bar) -> str:
        """Name a bar and its value: "red bar reaches three"."""
        return self.say("description.bar", c=bar.colour, n=bar.number)

    def description(self, drawing: Drawing, *, short: bool) -> tuple[str, tuple[Fact, ...]]:
        """Describe a drawing in one sentence or in several; also return the facts they state."""
        b = drawing.background
        if short:
            texts = [self.say_sentence("caption.sentence", things=self._short_text(drawing), b=b)]
        else:
            body = join_sentences(*self._sentences(drawing))
            ground = self.say_sentence("description.background", b=b)
            texts = [body, ground] if self.random() < 0.7 else [ground, body]
        facts = (*self._facts(drawing, short=short), background_fact(b))
        mood = "" if short else self.maybe_sentence(0.4, "description.mood")
        return join_sentences(*texts, mood), facts

    def _sentences(self, drawing: Drawing) -> Iterator[str]:
        """Yield the kind of drawing, all that it shows, and the tallest bar or the word."""
        match drawing:
            case Scene(things=things):
                number = f"{NUMBERS[len(things) - 1]} {'shapes' if len(things) > 1 else 'shape'}"
                yield self.say_sentence("description.scene", n=number)
                yield self.describe(drawing)
            case Chart():
                yield self.say_sentence("description.chart")
                yield self.describe(drawing)
                yield self.say_sentence("description.tallest", c=drawing.tallest.colour)
            case Word():
                yield self.say_sentence("description.word")
                yield self.describe(drawing)
                yield self.say_sentence("description.text", w=drawing.text, c=drawing.colour)

    def _facts(self, drawing: Drawing, *, short: bool = False) -> tuple[Fact, ...]:
        """Return the facts that a long or short description states, without the background."""
        match drawing:
            case Scene():
                makers = (thing_colour,) if short else (thing_colour, thing_place)
                return tuple(make(thing) for thing in drawing.singles("shape") for make in makers)
            case Chart():
                return tuple(map(bar_fact, [drawing.tallest] if short else drawing.bars))
            case Word():
                return self.word_fact(drawing), ink_fact(drawing)

    def _short_text(self, drawing: Drawing) -> str:
        match drawing:
            case Scene():
                return self.things_at_places(drawing.things)
            case Chart():
                count, bar = NUMBERS[len(drawing.bars) - 1], self.bar_in_words(drawing.tallest)
                return self.say("caption.chart", n=count, bar=bar)
            case Word():
                return self.say("caption.word", w=drawing.text, c=drawing.colour)

    def explain(self, query: Query) -> str:
        """Answer with the evidence: before a conclusion, before or after any other answer."""
        if query.needs_reasoning or self.random() < 0.65:
            opening = self.maybe_sentence(0.4, "answer.opening")
            parts = [opening, query.evidence, self.conclude(query)]
        else:
            verdict = f"{query.verdict}, " if query.verdict else ""
            parts = [sentence(verdict + query.clause), query.evidence]
        return join_sentences(*parts, self.maybe_sentence(0.3, "answer.closing"))

    def conclude(self, query: Query) -> str:
        """State the steps and the answer, without the evidence."""
        link = "answer.verdict" if query.verdict else "answer.conclusion"
        return join_sentences(query.steps, self.say_sentence(link, c=query.clause, v=query.verdict))

    def reply(self, query: Query) -> str:
        """Answer as in a chat: mostly one sentence, or with reasons if the answer needs them."""
        if query.needs_reasoning or self.random() < 0.3:
            return self.explain(query)
        clause = self.say_sentence("answer.short", c=query.clause)
        return join_sentences(clause, query.evidence if self.random() < 0.25 else "")


def prompts(name: str) -> list[str]:
    """Return the prompt of a published dataset, then other wordings of the same request."""
    return list(_phrases()["prompts"][name])


def sentence(text: str) -> str:
    """Capitalise the first letter, and add a full stop if there is no mark at the end."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return text[0].upper() + text[1:] + end


def join_sentences(*parts: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, parts))


def an(noun: str) -> str:
    """Put the indefinite article before a noun."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(noun: str) -> str:
    """Form the plural of a shape's name."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def join_with_and(items: Sequence[str]) -> str:
    """Join items with commas, and the last with "and"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def letter_choices(choices: Sequence[str]) -> str:
    """Return choices in a row, each after its letter: "(A) red (B) blue"."""
    pairs = zip(LETTERS, choices, strict=False)
    return " ".join(f"({letter}) {choice}" for letter, choice in pairs)


def thing_slots(thing: Thing) -> dict[str, str]:
    """The slots of phrases about one thing: its traits, and itself and its shape with articles."""
    return thing.traits | {"thing": an(thing.name), "a_shape": an(thing.shape)}


def fact(category: str, value: str, options: Sequence[str], section: str, **slots: str) -> Fact:
    """Return a fact whose forms are those of a section of phrases.toml, with `slots` filled in."""
    forms = tuple(form.format(SLOT, **slots) for form in _phrases()[section]["forms"])
    return Fact(category, value, tuple(options), forms)


def thing_fact(category: str, trait: str, section: str, thing: Thing) -> Fact:
    """Return a trait of a thing, "colour", "shape" or "place", as a fact."""
    return fact(category, thing.traits[trait], _OPTIONS[trait], section, **thing_slots(thing))


# Answers identify a thing by its shape, or by its colour where its shape is asked for.
thing_colour = partial(thing_fact, "colour", "colour", "colour")
thing_place = partial(thing_fact, "position", "place", "where")


def background_fact(background: str) -> Fact:
    """Return the colour of the background as a fact."""
    return fact("background", background, tuple(BACKGROUNDS), "background")


def bar_fact(bar: Bar) -> Fact:
    """Return the value of a bar as a fact."""
    return fact("chart", bar.number, NUMBERS, "bar", colour=bar.colour)


def ink_fact(word: Word) -> Fact:
    """Return the colour of the letters as a fact."""
    return fact("colour", word.colour, tuple(COLOURS), "ink")


def event_facts(category: str, event: str, **things: Thing | None) -> tuple[Fact, ...]:
    """Return the facts that texts about an event state: those in `[facts]` of phrases.toml."""
    return tuple(
        Fact(category, thing.traits[trait], _OPTIONS[trait], tuple(forms))
        for name, trait, *forms in _phrases()["facts"][event]
        if (thing := things[name])
    )
