"""Recorded answers of real models, with their real tokenizers: the figures of the results."""

import csv
from collections import Counter
from pathlib import Path

import pytest
from benchmark_files import ANSWERED, answers_file, directory, lines
from replay import METHODS
from replay import lines as lines_of

from mmspec.checkpoints.config import read_config
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import answer_ids
from mmspec.prompt.tokenizer import Tokenizer

pytestmark = pytest.mark.slow
RESULTS = Path(__file__).parents[2] / "docs/results/replay.csv"
CUT = {"llava-1.5-7b": 10, "qwen2.5-vl-7b": 8}
"""Answers that ended at a limit, without the stop token that all others have."""


@pytest.mark.parametrize("model", ANSWERED)
def test_an_answer_has_as_many_tokens_as_the_model_counted(model):
    files = directory(model)
    template = load_template(files)
    tokenizer = Tokenizer.read(files, read_config(files).family.image_tokens)
    stops = Counter(
        count - len(answer_ids(text, template, tokenizer))
        for entry in lines(answers_file(model))
        for answer in entry["choices"][:1]
        for text, count in zip(answer["turns"], answer["new_tokens"], strict=True)
    )
    assert stops == {1: 723 - CUT[model], 0: CUT[model]}


@pytest.mark.parametrize("model", ANSWERED)
def test_replayed_figures_are_those_of_the_results(model, tmp_path):
    with RESULTS.open(newline="", encoding="utf-8") as opened:
        figures = [entry for entry in csv.DictReader(opened) if entry["model"] == model]
    assert [*lines_of(model, tmp_path, METHODS)] == figures
    assert {entry["same"] for entry in figures} == {"1.0"}
    assert {entry["answers"] for entry in figures if entry["topic"] == "all"} == {"723"}
