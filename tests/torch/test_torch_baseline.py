"""transformers as a peer: the same tokens as ours, clocked one by one."""

import json
import shutil

import pytest
from PIL import Image

from mmspec.diagnostics.prompts import user_prompt
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.run_mmspec import load_mmspec
from mmspec_bench.compare.run_transformers import load_transformers
from mmspec_bench.compare.runner import question_of
from mmspec_bench.compare.script_io import Clock, Task
from mmspec_bench.prompts import world_prompts

PLAIN = {"backend": "torch", "quantize": "none", "drafting": "none", "gamma": 5, "exact": "auto"}


def text(words):
    return {"type": "text", "text": words}


def task(path, draft=None, **options):
    return Task(str(path), draft and str(draft), "cpu", "float32", options, 12, {})


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Questions about one image, about two, and in text alone."""
    folder, two = tmp_path_factory.mktemp("questions"), world_prompts(1, size=32, tasks=["spot"])
    prompts = [*world_prompts(1, size=32), *two, user_prompt("What is it?")]
    asked = [question_of(prompt, folder) for prompt in prompts]
    Image.new("RGB", (40, 30), "red").save(folder / "red.png")
    return [*asked, [{"type": "image", "path": str(folder / "red.png")}, text("what is this?")]]


def test_transformers_says_the_same_tokens(llava_path, questions):
    ours, theirs = load_mmspec(task(llava_path, **PLAIN)), load_transformers(task(llava_path))
    for question in questions:
        clock = Clock()
        tokens, rounds = theirs.answer(question, clock)
        assert tokens == ours.answer(question, Clock())[0]
        assert [count for count, _ in clock.events] == list(range(1, rounds + 1))
        assert rounds in (len(tokens), len(tokens) + 1)
    assert theirs.facts["dtype"] == "float32"


@pytest.mark.parametrize("options", [{"draft_tokens": 3}, {"lookup": 10}], ids=str)
def test_with_an_assistant_or_lookup_too(pair_paths, questions, options):
    # In an image's prompt lookup may propose its positions, which `generate` then misses.
    question = [text("what is this? what is that?")] if "lookup" in options else questions[3]
    drafting = PLAIN | {"drafting": "M", "gamma": 3}
    ours = load_mmspec(task(*pair_paths, **drafting))
    expected, rounds = ours.answer(question, Clock())
    assert 1 < rounds <= len(expected) + 1
    assert ours.facts["exact_mode"] == "auto"
    draft = pair_paths[1] if "draft_tokens" in options else None
    clock = Clock()
    tokens, forwards = load_transformers(task(pair_paths[0], draft, **options)).answer(
        question, clock
    )
    assert tokens == expected
    assert forwards == len(clock.events)
    assert clock.events[-1][0] in (len(tokens), len(tokens) + 1)


def test_a_text_model_is_asked_as_text_and_needs_a_template(llama_path, tmp_path):
    directory, question = shutil.copytree(llama_path, tmp_path / "llama"), [text("What is it?")]
    template = directory / "chat_template.jinja"
    template.write_text("{{ bos_token }}{{ messages[0].content }}:")
    expected, _ = load_mmspec(task(directory, **PLAIN)).answer(question, Clock())
    assert load_transformers(task(directory)).answer(question, Clock())[0] == expected
    template.unlink()
    config = directory / "tokenizer_config.json"
    fields = json.loads(config.read_text())
    fields.pop("chat_template", None)
    config.write_text(json.dumps(fields))
    with pytest.raises(UsageError, match="no chat template"):
        load_transformers(task(directory))


def test_packed_weights_are_refused(mlx_path):
    with pytest.raises(UsageError, match="MLX-quantized"):
        load_transformers(task(mlx_path))
