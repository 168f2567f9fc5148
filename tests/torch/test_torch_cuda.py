"""What only a CUDA GPU can show: graphs, memory and the order of things on the device."""

import gc

import pytest
import torch
from test_torch_static import DRAWN, conversation

from mmspec.chat.engine import load
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.options import Options
from mmspec.checkpoints.quantization import read_scheme
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.diagnostics.check import check
from mmspec.exactness.probe import find_exact_rows
from mmspec_bench.prompts import prompts_for
from mmspec_torch.backend import TorchBackend
from mmspec_torch.device.cuda_graphs import CudaGraphs
from mmspec_torch.device.quantized import Dequantizer, Integers4, Integers8, quantized
from mmspec_torch.network import attention
from mmspec_torch.sequence.replayed import ReplayedSequences
from support import sequence_helpers as helpers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
]


@pytest.fixture(autouse=True)
def first_costs(monkeypatch):
    """Rounds are timed at the start, as for users: that captures graphs."""
    monkeypatch.setattr("mmspec.chat.engine.measure_first_costs", measure_first_costs)


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [TorchBackend().load(path, device="cuda", dtype="float32") for path in pair_paths]


def dynamic(pair, monkeypatch):
    for model in pair:
        monkeypatch.setattr(model, "sequences", type(model).sequences)


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("letters", [[0], [1, 0], [2, 1, 0], [0, 1, 2, 1]])
def test_graphs_say_what_kernels_say_one_by_one(pair, views, letters, sampling, monkeypatch):
    assert isinstance(pair[0].sequences, ReplayedSequences)
    found, ours = conversation(pair, views, letters, sampling)
    with monkeypatch.context() as patch:
        dynamic(pair, patch)
        expected, logits = conversation(pair, views, letters, sampling)
    assert found == expected
    torch.testing.assert_close(ours, logits, atol=1e-3, rtol=0)


def test_the_gpu_says_what_the_cpu_says(pair_paths, views, pair):
    there = [TorchBackend().load(path, device="cpu") for path in pair_paths]
    text = [helpers.TEXT, helpers.TEXT]

    def run(models):
        target = helpers.target(models[0], helpers.TEXT)
        return helpers.tokens(helpers.rounds(target, helpers.branches(models[1], text), 60))

    assert run(pair) == run(there)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_run_and_keep_their_losslessness_against_themselves(pair_paths, dtype):
    engine = load(*map(str, pair_paths), backend="torch", device="cuda", dtype=dtype)
    chats = [engine.chat(Options(drafting="T", max_new_tokens=60, gamma=5)) for _ in range(2)]
    first, second = (chat.reply("What is this?").token_ids for chat in chats)
    assert first == second
    assert len(first) > 5


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("graphs", [True, False])
def test_some_number_of_rows_is_exact(pair_paths, dtype, graphs, monkeypatch):
    model = TorchBackend().load(pair_paths[0], device="cuda", dtype=dtype)
    if not graphs:
        dynamic([model], monkeypatch)
    assert find_exact_rows(model)


@pytest.mark.parametrize("word", ["int8", "int4", "int4-32", "int4-128"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_products_of_quantized_matrices_are_those_of_the_cpu(word, dtype):
    scheme, weight = read_scheme(word), torch.randn(1024, 2048, dtype=dtype, device="cuda")
    integers = Integers4.of(weight, scheme.group) if scheme.group else Integers8.of(weight)
    there = Dequantizer(type(integers)(*(tensor.cpu() for tensor in integers)))
    here = quantized(weight, scheme, "w")
    assert isinstance(here, Dequantizer) == (dtype != torch.bfloat16)
    for rows in (1, 6, 600):
        x = torch.randn(rows, 2048, dtype=dtype)
        expected = there(x).float()
        error = (here(x.cuda()).cpu().float() - expected).abs().max() / expected.abs().max()
        assert error < (1e-5 if dtype == torch.float32 else 0.02)


@pytest.mark.parametrize("word", ["int8", "int4"])
def test_a_quantized_pair_runs_as_graphs_and_is_checked(word):
    engine = load("mini", backend="torch", device="cuda", quantize=word, dtype="float32")
    options = Options(drafting="MT", gamma=5, max_new_tokens=60)
    assert check(engine, prompts_for(engine.target.model.config, 3), options).outcome != "bug"
    assert load("mini", device="cuda", quantize="int4").target.model.dtype == "bfloat16"


def test_drafting_does_not_wait_for_the_device(pair, views):
    target, drafter = helpers.target(pair[0], views[0]), helpers.branches(pair[1], views)
    helpers.rounds(target, drafter, 40)  # captures
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)  # some tenths of a second
    helpers.draft(drafter, 4, *[1 / 3] * 3)
    done = torch.cuda.Event()
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


def test_a_capture_that_waits_for_the_device_counts_its_own_seconds(pair, monkeypatch):
    language = pair[0].language
    sequences = ReplayedSequences(language, CudaGraphs(language.device))
    monkeypatch.setattr(pair[0], "sequences", sequences)
    target = helpers.target(pair[0], helpers.TEXT)
    before = pair[0].setup_seconds
    torch.cuda._sleep(4_000_000_000)  # two seconds
    target.verify(HostDraft([3, 4, 5]), NO_NOISE)
    assert 0 < pair[0].setup_seconds - before < 1


def test_attention_outside_graphs_plans_for_no_shape(monkeypatch):
    attended, plans = attention._attention, []

    def observed(queries, keys, values, step):
        plans.append(torch.backends.cuda.cudnn_sdp_enabled() and not step.recurs)
        return attended(queries, keys, values, step)

    monkeypatch.setattr(attention, "_attention", observed)
    engine = load("mini", "mini-dspark", backend="torch", device="cuda")
    engine.chat(Options(gamma=5, max_new_tokens=20)).reply("What is this?")
    assert plans
    assert not any(plans)


def test_memory_is_flat_over_conversations(pair, views):
    held = []
    for _ in range(6):
        conversation(pair, views, [0, 1], GREEDY)
        gc.collect()
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
    assert held[-1] <= held[1]
