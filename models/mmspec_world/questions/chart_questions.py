"""Questions about a chart or a written word."""

import random
from collections.abc import Sequence

from mmspec_world.answers.descriptions import bar_in_words, bars_in_words, spelling
from mmspec_world.answers.phrasing import say
from mmspec_world.answers.statements import bar_fact, ink_fact, word_fact
from mmspec_world.facts import Fact, Query
from mmspec_world.scenes.charts import Chart
from mmspec_world.scenes.palette import COLOURS
from mmspec_world.scenes.words import Word

QUESTIONS: dict[str, Sequence[str]] = {
    "extreme bar": (
        "Which bar is the {word}?",
        "What colour is the {word} bar?",
        "What is the colour of the {word} bar?",
    ),
    "bar value": (
        "What is the value of the {colour} bar?",
        "How high is the {colour} bar?",
        "Which value does the {colour} bar have?",
    ),
    "word": (
        "What does the picture say?",
        "What word is written [in the picture|here]?",
        "Can you read the [word|text] in the picture?",
    ),
    "ink": (
        "What colour are the letters?",
        "In which colour is the word written?",
        "What is the colour of the text?",
    ),
}


def extreme_bar_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    clause = say(rng, "[the {w} bar is {c}|the {c} bar is the {w}]", w=word, c=bar.colour)
    forms = (rf"{word} bar is {{}}", rf"{{}} bar is the {word}")
    fact = Fact("chart", bar.colour, tuple(COLOURS), forms)
    question = say(rng, QUESTIONS["extreme bar"], word=word)
    return Query(question, clause, bars_in_words(rng, chart), fact, derived=True)


def bar_value_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, QUESTIONS["bar value"], colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Query(question, clause, bars_in_words(rng, chart), bar_fact(bar))


def word_query(rng: random.Random, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = say(
        rng, "[the word is {w}|the picture says {w}|it reads {w}|the text says {w}]", w=word.text
    )
    question, fact = say(rng, QUESTIONS["word"]), word_fact(rng, word)
    return Query(question, clause, spelling(rng, word), fact, derived=True)


def ink_query(rng: random.Random, word: Word) -> Query | None:
    """Ask for the colour of the letters."""
    clause = say(rng, "[the letters are {c}|the word is written in {c}]", c=word.colour)
    question = say(rng, QUESTIONS["ink"])
    return Query(question, clause, spelling(rng, word), ink_fact(word))
