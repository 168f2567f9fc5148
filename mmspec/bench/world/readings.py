"""Questions about charts and written words."""

import random
from collections.abc import Sequence

from mmspec.bench.world.asks import Ask
from mmspec.bench.world.charts import Chart
from mmspec.bench.world.describing import bar_in_words, bars_in_words, spelling
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.palette import COLOURS
from mmspec.bench.world.phrasing import say
from mmspec.bench.world.statements import bar_fact, ink_fact, word_fact
from mmspec.bench.world.words import Word

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


def ask_extreme_bar(rng: random.Random, chart: Chart) -> Ask | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    clause = say(rng, "[the {w} bar is {c}|the {c} bar is the {w}]", w=word, c=bar.colour)
    forms = (rf"{word} bar is {{}}", rf"{{}} bar is the {word}")
    fact = Fact("chart", bar.colour, tuple(COLOURS), forms)
    question = say(rng, QUESTIONS["extreme bar"], word=word)
    return Ask(question, clause, bars_in_words(rng, chart), fact, derived=True)


def ask_bar_value(rng: random.Random, chart: Chart) -> Ask | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, QUESTIONS["bar value"], colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Ask(question, clause, bars_in_words(rng, chart), bar_fact(bar))


def ask_word(rng: random.Random, word: Word) -> Ask | None:
    """Ask what is written."""
    clause = say(
        rng, "[the word is {w}|the picture says {w}|it reads {w}|the text says {w}]", w=word.text
    )
    question, fact = say(rng, QUESTIONS["word"]), word_fact(rng, word)
    return Ask(question, clause, spelling(rng, word), fact, derived=True)


def ask_ink(rng: random.Random, word: Word) -> Ask | None:
    """Ask for the colour of the letters."""
    clause = say(rng, "[the letters are {c}|the word is written in {c}]", c=word.colour)
    question = say(rng, QUESTIONS["ink"])
    return Ask(question, clause, spelling(rng, word), ink_fact(word))
