"""A target joined from a Llama and a LLaVA's tower: resumed, read by others, and equal to them."""

import json
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.chat_template import LLAVA, load_template
from mmspec_train.data.batch import ConversationRecord
from mmspec_train.data.teacher import Teacher
from mmspec_train.run import loop
from mmspec_train.targets.join import write_llava
from support import factory
from support.factory_layouts import CORPUS, SPECIAL_TOKENS, byte_level
from support.teacher_data import Killed
from support.transformers_oracle import generated, transformers_model

TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}{{ 'Be brief.\n' }}{% endif %}"
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '</s>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A Llama whose tokenizer has no image token, its own answers to text, and a LLaVA."""
    folder = tmp_path_factory.mktemp("parts")
    llama = factory.tiny_llama(folder / "llama", tied=True, vocab_size=300)
    byte_level(SPECIAL_TOKENS[:3], 300, [CORPUS]).save(str(llama / "tokenizer.json"))
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    (llama / "tokenizer_config.json").write_text(json.dumps(names))
    (llama / "chat_template.jinja").write_text(TEMPLATE)
    (answers := folder / "answers").mkdir()
    record = ConversationRecord(0, ((5, 6, 7),), ((8, 9, 2),), (True,))
    (answers / "train.jsonl").write_bytes(record.line)
    (answers / "about.train.json").write_text(json.dumps({"target": Teacher(llama).digest()}))
    tower = factory.tiny_llava(folder / "tower")
    return ["--language", llama, "--tower", tower, "--answers-dir", answers, "--batch", 128]


def test_a_template_that_shows_images_itself_stays_as_it_is(parts, tmp_path):
    _, language, _, tower, *_ = parts
    (copytree(language, tmp_path / "llama") / "chat_template.jinja").write_text(LLAVA)
    write_llava(tmp_path / "llama", tower, 0, tmp_path / "own")
    assert load_template(tmp_path / "own").source == LLAVA


def test_an_untied_output_matrix_learns_too(run, parts, tmp_path):
    _, own, *others = parts
    llama, out = factory.tiny_llama(tmp_path / "llama", vocab_size=300), tmp_path / "out"
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (llama / file).write_bytes((own / file).read_bytes())
    command = ["train", "target", "--language", llama, *others[:2], "--steps", "3", "--out", out]
    assert run(*command).status == 0
    before, after = (load_file(path / "model.safetensors") for path in (llama, out))
    learned = after["language_model.lm_head.weight"][:300]
    assert not torch.equal(before["lm_head.weight"].half(), learned)


def test_neither_a_model_nor_answers_of_another_are_taken(refused, parts, tmp_path):
    out = copytree(parts[3], tmp_path / "out")
    weights = (out / "model.safetensors").read_bytes()
    refused("train", "target", *parts, "--steps", "1", "--out", out, words=[f"{out} holds a model"])
    assert (out / "model.safetensors").read_bytes() == weights
    other = factory.tiny_llama(tmp_path / "other", tied=True, vocab_size=300, seed=1)
    said = f"has the answers of another model than {other}"
    refused("train", "target", *parts, "--language", other, "--out", tmp_path, words=[said])


def stopped(*_):
    raise Killed


def test_an_interrupted_target_goes_on_and_answers_as_transformers_says(
    run, parts, red, tmp_path, monkeypatch
):
    whole, out = tmp_path / "whole", tmp_path / "out"
    command = ["train", "target", *parts, "--steps", "3", "--out"]
    assert run(*command, whole).status == 0
    with monkeypatch.context() as patch:  # before the last stage
        calls = iter([loop.run_phase, loop.run_phase, stopped])
        patch.setattr(loop, "run_phase", lambda *given: next(calls)(*given))
        with pytest.raises(Killed):
            run(*command, out)
    assert run(*command, out).status == 0
    continued = load_file(out / "model.safetensors")
    trained = load_file(whole / "model.safetensors")
    assert all(torch.equal(tensor, continued[name]) for name, tensor in trained.items())

    from PIL import Image
    from transformers import AutoProcessor

    processor, oracle = AutoProcessor.from_pretrained(out), transformers_model(out)
    parts = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True
    )
    assert text == "Be brief.\nuser: <image>\nWhat is this?</s>assistant: "
    inputs = processor(images=Image.open(red).convert("RGB"), text=text, return_tensors="pt")
    ids = inputs["input_ids"][0].tolist()
    for backend in ("torch", "mlx"):
        chat = load(str(out), "none", backend=backend, dtype="float32").chat(
            Options(max_new_tokens=12)
        )
        chat.reply("What is this?", (red,))
        ours = chat.answer.token_ids
        assert ours == generated(oracle, ids, 12, pixel_values=inputs["pixel_values"])[: len(ours)]
