"""Questions about a chart or a written word."""

import random

from mmspec_world.answers.descriptions import bar_in_words, bars_in_words, spelling
from mmspec_world.answers.phrasing import say
from mmspec_world.answers.statements import bar_fact, ink_fact, word_fact
from mmspec_world.facts import Fact, Query
from mmspec_world.scenes.charts import Chart
from mmspec_world.scenes.palette import COLOURS
from mmspec_world.scenes.words import Word


def extreme_bar_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    clause = say(rng, "extreme_bar.clause", w=word, c=bar.colour)
    forms = (rf"{word} bar is {{}}", rf"{{}} bar is the {word}")
    fact = Fact("chart", bar.colour, tuple(COLOURS), forms)
    question = say(rng, "extreme_bar.question", word=word)
    return Query(question, clause, bars_in_words(rng, chart), fact, derived=True)


def bar_value_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, "bar.question", colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Query(question, clause, bars_in_words(rng, chart), bar_fact(bar))


def word_query(rng: random.Random, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = say(rng, "word.clause", w=word.text)
    question, fact = say(rng, "word.question"), word_fact(rng, word)
    return Query(question, clause, spelling(rng, word), fact, derived=True)


def ink_query(rng: random.Random, word: Word) -> Query | None:
    """Ask for the colour of the letters."""
    clause = say(rng, "ink.clause", c=word.colour)
    question = say(rng, "ink.question")
    return Query(question, clause, spelling(rng, word), ink_fact(word))
