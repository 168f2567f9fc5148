"""Plans of trainings: sizes and operations against counts by hand, without any weights."""

import json
import time
import timeit

import pytest
import torch
from PIL import Image

from mmspec.ground.errors import HubError, UsageError
from mmspec_bench.random_weights.shapes import llava, text
from mmspec_train.data_settings import DataSettings
from mmspec_train.dry_run import TRAINED_BYTES, plan_draft, plan_head
from mmspec_train.gpus import REACHED, read_gpu
from mmspec_train.heads.train_heads import distill_head
from mmspec_train.settings import (
    Budget,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
    MethodSettings,
    RunSettings,
)
from support.factory_qwen import tiny_qwen3_vl

DECODER = 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 2 * 32064 * 4096 + 4096
PROJECTOR = 1024 * 4096 + 4096 + 4096**2 + 4096
"""Parameters of LLaVA-1.5-7B, counted by hand."""
EAGLE = 4 * 4096**2 + 3 * 4096 * 11008 + 4096 + 2 * 4096**2 + 4096
MEASURED = "mine=100,1,80"
OPERATIONS = 1e14
EIGHT = Budget(steps=8)


@pytest.fixture
def settings(tmp_path):
    """A 7B target without weights, and 400 conversations of 100 and 20 tokens."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text(json.dumps(llava(text("vicuna-7b"))))
    turns = [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]
    (tmp_path / "data.json").write_text(json.dumps([{"conversations": turns}] * 400))
    data = (tmp_path / "data.json",)
    return DataSettings(str(target), data, answers="dataset", samples=300, cache_gb=1.0, batch=120)


def test_a_heads_plan_is_what_its_shapes_say(settings):
    method = HeadMethodSettings(rollout=3)
    plan = plan_head(MEASURED, "eagle", HeadShape(), method, Budget(steps=600), settings)
    assert (plan.lengths.conversations, plan.lengths.prompt, plan.lengths.answer) == (300, 100, 20)
    tower = plan.target_bytes / 2 - DECODER - PROJECTOR
    assert 0.28e9 < tower < 0.31e9, "CLIP ViT-L/14 up to the layer that is read"
    assert plan.trained_bytes == 16 * EAGLE
    assert plan.logits_bytes == 2 * 4 * 3 * 120 * 32064
    assert plan.states_bytes == 300 * 120 * 4096 * 2
    assert plan.stored_bytes == plan.states_bytes
    assert plan.epochs == 2
    assert plan.state_seconds == pytest.approx(300 * 2 * (DECODER + PROJECTOR) * 120 / OPERATIONS)
    logits = 2 * 4096 * 32064
    step = 6 * EAGLE * (120 + 2 * 20) + 7 * logits * 20
    assert plan.training_seconds == pytest.approx(2 * 300 * step / OPERATIONS)
    assert plan.answer_seconds == 0


def test_states_that_are_not_stored_are_computed_in_every_epoch(settings):
    def seconds(gigabytes):
        method, stored = (
            HeadMethodSettings(),
            DataSettings(**vars(settings) | {"cache_gb": gigabytes}),
        )
        return plan_head(
            MEASURED, "eagle", HeadShape(), method, Budget(steps=900), stored
        ).state_seconds

    assert seconds(0.0) == pytest.approx(3 * seconds(1.0))


def test_answers_of_the_target_cost_a_reading_of_its_weights_a_token(settings):
    own = DataSettings(
        **vars(settings) | {"answers": "target", "answer_tokens": 64, "answer_rows": 32}
    )
    plan = plan_head(MEASURED, "msd", HeadShape(), HeadMethodSettings(), EIGHT, own)
    assert plan.lengths.answer == 64
    assert plan.state_seconds == 0, "they are stored with the answers"
    assert plan.answer_bytes == 32 * 164 * 2 * 32 * 4096 * 2
    prefills = 300 * 2 * (DECODER + PROJECTOR) * 164 / OPERATIONS
    assert plan.answer_seconds == pytest.approx(prefills + 300 * 64 / 32 * plan.target_bytes / 1e12)


def test_a_recipe_gives_its_epochs_and_a_budget_in_minutes_its_hours(settings):
    method = HeadMethodSettings(recipe="msd")
    assert plan_head("a100", "msd", HeadShape(), method, Budget(), settings).epochs == 40
    plan = plan_head("a100", "msd", HeadShape(), method, Budget(minutes=30), settings)
    assert (plan.epochs, plan.training_seconds) == (0, 1800)


def test_a_draft_that_learns_answers_needs_no_hidden_states(settings):
    shape, method = LlamaShape(), MethodSettings(loss="ce", recipe="llava")
    plan = plan_draft("H100", shape, method, Budget(), settings)
    assert (plan.states_bytes, plan.state_seconds, plan.epochs) == (0, 0, 1)
    assert plan_draft("h100", shape, MethodSettings(), EIGHT, settings).states_bytes > 0


def test_a_draft_that_starts_from_a_llama_has_its_sizes(settings, tmp_path):
    method, source = MethodSettings(loss="ce"), tmp_path / "llama"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(text("llama-68m")))
    own = plan_draft("h100", LlamaShape(2, 768, 12, 3072, 2048), method, EIGHT, settings)
    from_it = plan_draft("h100", LlamaShape(), method, EIGHT, settings, str(source))
    untied = TRAINED_BYTES * 32064 * 768
    assert from_it.trained_bytes == own.trained_bytes + untied


def test_what_does_not_fit_is_said(settings):
    plan = plan_head("tiny=100,1,8", "eagle", HeadShape(), HeadMethodSettings(), EIGHT, settings)
    assert "of 8.0 GB (does not fit: use a smaller --batch)" in plan.lines()[2]
    many = DataSettings(**vars(settings) | {"answers": "target", "answer_rows": 1000})
    plan = plan_head("tiny=100,1,8", "eagle", HeadShape(), HeadMethodSettings(), EIGHT, many)
    assert "(does not fit: use a smaller --answer-rows)" in plan.lines()[2]


def test_a_head_with_its_own_vocabulary_has_fewer_logits(settings):
    shape, method = HeadShape(draft_vocabulary=8016), HeadMethodSettings(rollout=3)
    plan = plan_head(MEASURED, "eagle3", shape, method, EIGHT, settings)
    assert plan.logits_bytes == 2 * 4 * 3 * 120 * 8016


def test_a_gpu_is_named_or_measured():
    assert read_gpu("h100").operations == pytest.approx(REACHED * 989e12)
    assert read_gpu(MEASURED) == read_gpu("mine=100.0,1.0,80")
    with pytest.raises(UsageError, match=r"unknown GPU 'h10': .*nearest: h100"):
        read_gpu("h10")
    for wrong in ("mine=1,2", "mine=a,b,c"):
        with pytest.raises(UsageError, match="give a name, or measured"):
            read_gpu(wrong)


CARDS = {
    "qwen3-vl-8b": (36, 4096, 12288, 32, 8, 128),
    "qwen2.5-vl-7b": (28, 3584, 18944, 28, 4, 128),
}
"""Layers, width, inner width, heads, key-value heads and head size of cards."""
CELLS = {"qwen3-vl-8b": 32, "qwen2.5-vl-7b": 28}
"""Side in pixels of a visual position."""


@pytest.fixture
def shown(tmp_path):
    """40 conversations with an image of 640 x 480 pixels each, and one that no model can see."""
    Image.new("RGB", (640, 480)).save(tmp_path / "wide.png")
    Image.new("RGB", (4000, 8)).save(tmp_path / "strip.png")
    turns = [
        {"from": "human", "value": "<image>\n" + "x" * 399},
        {"from": "gpt", "value": "y" * 80},
    ]
    images = ["wide.png"] * 40 + ["strip.png"]
    data = [{"image": image, "conversations": turns} for image in images]
    (tmp_path / "data.json").write_text(json.dumps(data))
    return (tmp_path / "data.json",)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("gpu", ["a100", "h100", "rtx-4090"])
def test_a_card_of_qwen_is_planned_without_its_files(shown, card, gpu, monkeypatch, tmp_path):
    """By an image's own size; what DeepStack adds is stored beside the embeddings."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    settings = DataSettings(card, shown, answers="dataset", samples=40, cache_gb=100.0)
    plan = plan_head(gpu, "eagle3", HeadShape(), HeadMethodSettings(), Budget(steps=40), settings)
    layers, width, inner, heads, shared, size = CARDS[card]
    cell = CELLS[card]
    visual = round(480 / cell) * round(640 / cell)
    assert plan.lengths.visual == visual
    assert plan.lengths.tower == 4 * visual
    assert plan.lengths.prompt == pytest.approx(visual + 100, abs=1)
    vectors = 2 * size if card == "qwen3-vl-8b" else (heads + 2 * shared) * size
    attention = 2 * (heads + shared) * size * width + vectors
    layer = attention + 3 * width * inner + 2 * width
    vocabulary = {"qwen3-vl-8b": 151936, "qwen2.5-vl-7b": 152064}[card]
    text = layers * layer + width + 2 * vocabulary * width
    tower = plan.target_bytes / 2 - text
    assert 0.55e9 < tower < 0.75e9, "Qwen's towers and mergers"
    rows = plan.lengths.columns + visual * (4 if card == "qwen3-vl-8b" else 1)
    conversations = plan.lengths.conversations
    assert plan.states_bytes == pytest.approx(conversations * rows * width * 2)
    assert [line.split(":")[0] for line in plan.lines()[1:]] == ["data", "memory", "disk", "hours"]


def test_a_head_that_reads_layers_runs_the_target_in_every_epoch(settings):
    def seconds(kind, gigabytes):
        stored = DataSettings(**vars(settings) | {"cache_gb": gigabytes})
        method, budget = HeadMethodSettings(), Budget(steps=900)
        return plan_head(MEASURED, kind, HeadShape(), method, budget, stored).state_seconds

    once = seconds("eagle", 1.0)
    assert seconds("eagle3", 0.0) == pytest.approx(3 * once)
    assert seconds("eagle3", 1.0) == pytest.approx(4 * once)


@pytest.mark.parametrize(("card", "billions"), [("llava-1.5-7b", 7.06), ("llava-1.5-13b", 13.35)])
def test_a_card_of_llava_is_planned_without_its_files(shown, card, billions, monkeypatch, tmp_path):
    """With the parameters that the hub states; of both stages and of a head."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    settings = DataSettings(card, shown, answers="dataset", samples=40)
    method, budget = HeadMethodSettings(), Budget(steps=40)
    head = plan_head("a100", "msd", HeadShape(), method, budget, settings)
    draft = plan_draft("a100", LlamaShape(), MethodSettings(loss="ce"), budget, settings)
    for plan in (head, draft):
        assert plan.target_bytes / 2e9 == pytest.approx(billions, abs=0.02)
        assert (plan.lengths.visual, plan.lengths.tower) == (576, 577)


def test_a_card_without_sizes_must_be_here(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    other = DataSettings(**vars(settings) | {"target": "lvlm68m"})
    with pytest.raises(HubError, match="run `mmspec models pull lvlm68m"):
        plan_head("a100", "eagle", HeadShape(), HeadMethodSettings(), EIGHT, other)


def measured_gpu():
    """This core's rates as `--plan` takes them; a number takes 4 bytes here, 2 in a plan."""
    x, many = torch.randn(512, 1024), [torch.randn(1024, 3072) for _ in range(60)]
    rates = []
    for rows in (x, x[:32]):
        seconds = min(timeit.repeat(lambda rows=rows: [rows @ m for m in many], number=1, repeat=3))
        rates.append(60 * 1024 * 3072 / seconds)
    return f"core={2 * 512 * rates[0] / 1e12},{2 * rates[1] / 1e12},16"


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
@pytest.mark.usefixtures("one_thread")
def test_a_plan_at_measured_rates_is_near_the_run(tmp_path, kind, capsys):
    """Of a Qwen3-VL of 110 million parameters, on one core."""
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "layers": 8, "heads": 16}
    sizes |= {"key_value_heads": 8, "head_dim": 64, "sections": (12, 10, 10), "positions": 4096}
    tower = {"vision_hidden_size": 256, "depth": 4, "vision_heads": 4, "side": 12, "largest": 6400}
    target = tiny_qwen3_vl(tmp_path / "target", seed=1, **sizes, **tower)
    settings = DataSettings(
        str(target), samples=64, held_out=1, answer_tokens=32, answer_rows=16, batch=1024
    )
    given = kind, HeadShape(), HeadMethodSettings(rollout=3, gamma=3, every=1000), Budget(steps=30)
    plan = plan_head(measured_gpu(), *given, settings)
    planned = plan.answer_seconds + plan.state_seconds + plan.training_seconds
    started = time.perf_counter()
    distill_head(*given, settings, RunSettings(out=tmp_path / "out", device="cpu", threads=1))
    seconds = time.perf_counter() - started
    with capsys.disabled():
        print(f"\n{kind}: {planned:.0f} s planned, {seconds:.0f} s taken")  # noqa: T201
    assert 0.5 < planned / seconds < 2
