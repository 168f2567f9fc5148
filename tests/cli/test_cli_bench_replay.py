"""Recorded answers as a target: the rounds of the model that gave them, without its weights."""

import pytest

from mmspec.checkpoints.hub import resolve
from mmspec_bench.suite.rows import PLAIN, ROWS, read_rows
from support.factory_qwen import CHAT_TEMPLATE, tiny_qwen
from support.mmspec_suite import SAMPLES, write_answers, write_benchmark, write_lines

METHODS = ("none", "lookup", "tree12w4:MT")


def arguments(suite, out, *more, methods=METHODS):
    chosen = ["--suite", suite, "--limit", "2", "--methods", ",".join(methods)]
    length = ["--max-new-tokens", "16", "--backend", "torch"]
    return ["bench", "run", *chosen, *length, "--out", str(out), *more]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    return write_benchmark(tmp_path_factory.mktemp("benchmark"))


@pytest.fixture
def unweighed(tmp_path):
    """The directory of `mini` without its weights."""
    folder, whole = tmp_path / "unweighed", resolve("mini", "torch")
    folder.mkdir()
    for file in whole.iterdir():
        if file.suffix in (".json", ".jinja") and "safetensors" not in file.name:
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def counts(rows):
    return {(row.key, row.method): [one[:3] for one in row.rounds] for row in rows}


def test_its_rounds_are_those_of_the_model_that_gave_the_answers(
    run, benchmark, unweighed, tmp_path
):
    few = "--limit", "1"
    assert run(*arguments(benchmark, tmp_path / "own", "--model", "mini", *few)).status == 0
    own = read_rows(tmp_path / "own" / ROWS)
    file = tmp_path / "answers.jsonl"
    write_answers(file, [row for row in own if row.method == PLAIN])
    again = ["--model", unweighed, "--draft", "mini-draft", "--target-answers", file]
    assert run(*arguments(benchmark, tmp_path / "again", *again, *few)).status == 0
    rows = read_rows(tmp_path / "again" / ROWS)
    assert [row.token_ids for row in rows] == [row.token_ids for row in own]
    assert counts(rows) == counts(own)
    assert {row.task for row in rows} == {"general vqa", "chats"}
    assert [row.turn for row in rows if row.method == "lookup" and row.task == "chats"] == [0, 1]
    assert all(row.identical for row in rows if row.method != PLAIN)
    assert any(each.accepted for row in rows if row.method == METHODS[-1] for each in row.rounds)


def equal_answers(folder, *texts):
    """A file of the same answers to every sample, and their texts by turn."""
    file, texts = folder / "answers.jsonl", texts or ("a red circle", "the mat and the dog")
    lines = [{"question_id": name, "choices": [{"turns": texts}]} for name, *_ in SAMPLES]
    write_lines(file, lines)
    return file, texts


def test_lookup_reads_earlier_samples_or_a_page_and_nothing_else(
    run, benchmark, llava_path, tmp_path
):
    file, texts = equal_answers(tmp_path)
    replay = ["--model", llava_path, "--draft", "none", "--target-answers", file]
    (page := tmp_path / "page.txt").write_text(texts[0])
    rows, methods = {}, ["none", "lookup", "tree8:lookup"]
    for name, more in {"alone": [], "page": ["--draft-text", page], "memory": ["--memory"]}.items():
        command = arguments(benchmark, tmp_path / name, *replay, *more, methods=methods)
        assert run(*command).status == 0
        rows[name] = counts(read_rows(tmp_path / name / ROWS))
    for (key, method), alone in rows["alone"].items():
        remembered = rows["memory"][key, method]
        assert (remembered == alone) == (key[0].endswith("001") or method == PLAIN)
        assert len(remembered) <= len(alone)
        is_on_the_page = key[1] == 0 and method != PLAIN
        assert (len(rows["page"][key, method]) < len(alone)) == is_on_the_page
    result = run(*command, "--resume")
    assert (result.status, "--memory" in result.err) == (2, True)


def test_a_text_model_drafts_for_answers_that_it_would_not_give(
    run, benchmark, llava_path, llama_path, tmp_path
):
    file, texts = equal_answers(tmp_path)
    pair = ["--model", llava_path, "--draft", llama_path, "--backend", "mlx"]
    methods = [PLAIN, "T", "tree6w3:T"]
    command = arguments(benchmark, tmp_path / "out", *pair, methods=methods)
    assert run(*command, "--target-answers", file).status == 0
    rows = read_rows(tmp_path / "out" / ROWS)
    assert ["".join(row.pieces).strip() for row in rows] == [texts[row.turn] for row in rows]
    drafted = [row for row in rows if row.method != PLAIN]
    assert all(row.identical and row.drafted for row in drafted)
    # A tree has more tokens than a chain of gamma.
    assert max(row.drafted / len(row.rounds) for row in drafted if row.method != "T") > 5


@pytest.mark.parametrize("most", [64, 8])
def test_answers_are_repeated_with_their_thoughts_and_cut(run, benchmark, tmp_path, most):
    """The template leaves thoughts out before a later question."""
    target = tiny_qwen("qwen3_5", tmp_path / "qwen")
    (target / "model.safetensors").unlink()
    template = CHAT_TEMPLATE.replace("part.text }}", "part.text.split('</think>')[-1] }}")
    (target / "chat_template.jinja").write_text(template)
    file, texts = equal_answers(tmp_path, "it is so</think>a red circle", "so</think>the mat")
    more = ["--model", target, "--max-new-tokens", str(most), "--target-answers", file]
    assert run(*arguments(benchmark, tmp_path / "out", *more, methods=METHODS[:2])).status == 0
    rows = read_rows(tmp_path / "out" / ROWS)
    assert {row.turn for row in rows} == {0, 1}
    for row in rows:
        text = "".join(row.pieces)
        assert (text == texts[row.turn]) == (row.finish_reason == "stop") == (most == 64)
        assert texts[row.turn].startswith(text)


def test_what_answers_cannot_do_is_refused_in_a_line(refused, benchmark, unweighed, tmp_path):
    file, model = tmp_path / "answers.jsonl", ["--model", unweighed]
    write_lines(file, [{"question_id": "mmspec_001", "choices": [{"turns": ["A circle."]}]}])
    for more, part in (
        ([], "--model"),
        ([*model, "--draft", "mini-msd"], "hidden states"),
        ([*model, "--temperature", "1"], "--temperature"),
        ([*model, "--draft", "none"], "mmspec_002: --target-answers"),
    ):
        asked = arguments(benchmark, tmp_path / "out", *more, methods=["lookup"])
        refused(*asked, "--target-answers", file, words=[part])


def test_a_target_of_text_alone_is_asked_without_the_images(run, benchmark, tmp_path):
    target = tiny_qwen("qwen3", tmp_path / "qwen")
    methods = ("none", "lookup")
    done = run(*arguments(benchmark, tmp_path / "out", "--model", target, methods=methods))
    assert done.status == 0
    rows = read_rows(tmp_path / "out" / ROWS)
    assert len(rows) == 2 * 4  # two samples of a topic and one of two turns
    assert all(row.images == 0 and row.token_ids for row in rows)
