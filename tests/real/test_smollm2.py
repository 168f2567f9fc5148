"""A real chat model is a target like any other: SmolLM2-135M-Instruct, beside transformers."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from smollm2 import FILE, write_float32

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec_cli.main import main
from support.live_server import live, text_of

pytestmark = pytest.mark.slow

BACKENDS = ["torch", "mlx"]
TOKENS = 32
CAPITAL = "What is the capital of France?"
LLAMA_CPP = os.environ.get("MMSPEC_LLAMA_CPP")


class Answer(NamedTuple):
    """What transformers makes of a prompt."""

    prompt: list[int]
    tokens: list[int]


@pytest.fixture(scope="module")
def answers(smollm2: Path, texts: Sequence[str]) -> list[Answer]:
    """Transformers' greedy answers, without their stop tokens."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    stop = model.generation_config.eos_token_id
    found = []
    for text in texts:
        chat = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        whole = model.generate(**ids, do_sample=False, max_new_tokens=TOKENS)[0].tolist()
        length = ids["input_ids"].shape[1]
        found.append(Answer(whole[:length], [t for t in whole[length:] if t != stop]))
    return found


@pytest.fixture(scope="module", params=BACKENDS)
def engine(request: pytest.FixtureRequest, smollm2: Path) -> Engine:
    """The model on each backend, in float32."""
    return load(str(smollm2), backend=request.param, device="cpu", dtype="float32")


@pytest.mark.parametrize("drafting", ["none", "lookup"])
def test_greedy_tokens_are_transformers(engine, drafting, texts, answers):
    options = Options(drafting=drafting, gamma=5, exact="off", max_new_tokens=TOKENS)
    drafted = 0
    for text, answer in zip(texts, answers, strict=True):
        with engine.chat(options) as chat:
            own = chat.reply(text)
        assert own.statistics.prompt_tokens == len(answer.prompt), text
        assert [t for t in own.token_ids if t not in engine.target.stop] == answer.tokens, text
        drafted += own.statistics.drafted
    assert bool(drafted) == (drafting == "lookup")


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_pytorch_answers_in_eight_and_four_bits(kind, smollm2):
    loaded = load(str(smollm2), backend="torch", device="cpu", quantize=kind)
    with loaded.chat(Options(drafting="none", exact="off", max_new_tokens=8)) as chat:
        assert "Paris" in chat.reply(CAPITAL).text


@pytest.mark.parametrize("bits", [8, 4])
def test_quantized_copies_answer_what_mlx_lm_makes_of_them(bits, smollm2, texts, tmp_path):
    import mlx_lm

    copy = tmp_path / "quantized"
    load_backend("mlx").quantize(smollm2, copy, bits=bits, group_size=64)
    model, tokenizer = mlx_lm.load(str(copy))
    loaded = load(str(copy), backend="mlx", device="cpu")
    for text in texts[:5]:
        with loaded.chat(Options(drafting="none", exact="off", max_new_tokens=8)) as chat:
            own = chat.reply(text)
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True
        )
        steps = mlx_lm.stream_generate(model, tokenizer, prompt, max_tokens=8)
        assert own.token_ids == [step.token for step in steps], text


def test_every_command_takes_it(smollm2, capsys):
    where = ["--model", str(smollm2), "--backend", "torch", "--device", "cpu"]
    decoding = ["--exact", "off", "--max-new-tokens", "8", "--json"]
    assert main(["generate", "--prompt", CAPITAL, *where, *decoding]) == 0
    assert "Paris" in json.loads(capsys.readouterr().out)["text"]
    assert main(["check", "--prompt", "Count to ten: one, two, one, two,", *where, *decoding]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "identical"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_answers_with_it(backend, smollm2):
    options = Options(exact="off", max_new_tokens=8)
    with live(lambda: load(str(smollm2), backend=backend, device="cpu"), options) as server:
        assert "Paris" in text_of(server.ask(CAPITAL))


@pytest.mark.skipif(LLAMA_CPP is None, reason="llama.cpp: MMSPEC_LLAMA_CPP names its Python")
def test_llama_cpp_answers_the_same_from_a_float32_file(smollm2, texts, tmp_path):
    model, prompts, out = (tmp_path / name for name in ("model", "prompts.jsonl", "peers.json"))
    model.mkdir()
    for file in smollm2.iterdir():
        if file.suffix != ".gguf":
            (model / file.name).symlink_to(file.resolve())
    write_float32(smollm2 / FILE, model / "float32.gguf")
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts[:5]))
    peers = ["--peers", "torch,llama.cpp", "--llama-cpp", LLAMA_CPP, "--repeats", "1"]
    asked = ["--prompts", str(prompts), "--max-new-tokens", "24", "--out", str(out)]
    command = ["bench", "peers", "--model", str(model), "--draft", "none", "--device", "cpu"]
    assert main([*command, *peers, *asked]) == 0
    found = {each["name"]: each for each in json.loads(out.read_text())["peers"]}
    for name in ("llama.cpp, plain", "llama.cpp, prompt lookup"):
        figures = found[name]["figures"]["given"]
        assert figures["identical"] == figures["answers"] == 5, found[name]
    assert figures["tokens_per_round"] > 1
