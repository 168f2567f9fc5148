"""transformers' `generate` beside this project: the same tokens as ours, clocked one by one."""

import json
import shutil

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.diagnostics.prompts import user_prompt
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.run_transformers import Transformers
from mmspec_bench.compare.runner import question_of
from mmspec_bench.compare.script_io import Clock, Task
from mmspec_bench.measure.speed import engine_method
from mmspec_bench.prompts import world_prompts

OPTIONS = Options(gamma=5, max_new_tokens=12)


def task(path):
    return Task(str(path), None, "cpu", "float32", {}, 12, {})


@pytest.mark.parametrize(
    "prompt",
    [
        world_prompts(1, size=32)[0],
        world_prompts(1, size=32, tasks=["spot"])[0],
        user_prompt("What is it?"),
    ],
    ids=["one image", "two images", "text"],
)
def test_transformers_says_the_same_tokens(llava_path, tmp_path, prompt):
    engine, clock = load(str(llava_path), "none", backend="torch"), Clock()
    tokens, rounds = Transformers(task(llava_path)).answer(question_of(prompt, tmp_path), clock)
    assert tokens == engine_method(engine, OPTIONS, "none", 1).answer(prompt).tokens
    assert rounds == len(clock.events) in (len(tokens), len(tokens) + 1)


def test_a_text_model_is_asked_as_text(llama_path, tmp_path):
    directory = shutil.copytree(llama_path, tmp_path / "llama")
    (directory / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}:")
    program = Transformers(task(directory))
    engine = load(str(directory), "none", backend="torch")
    prompt = user_prompt("What is it?")
    tokens, _ = program.answer(question_of(prompt, tmp_path), Clock())
    assert tokens == engine_method(engine, OPTIONS, "none", 1).answer(prompt).tokens


def test_a_checkpoint_without_a_template_is_refused(llama_path, tmp_path):
    directory = shutil.copytree(llama_path, tmp_path / "llama")
    (directory / "chat_template.jinja").unlink(missing_ok=True)
    config = directory / "tokenizer_config.json"
    fields = json.loads(config.read_text())
    config.write_text(
        json.dumps({name: fields[name] for name in fields.keys() - {"chat_template"}})
    )
    with pytest.raises(UsageError, match="no chat template"):
        Transformers(task(directory))


def test_packed_weights_are_refused(mlx_path):
    with pytest.raises(UsageError, match="MLX-quantized"):
        Transformers(task(mlx_path))
