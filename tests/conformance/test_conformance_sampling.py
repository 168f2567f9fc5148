"""Sampling: plain tokens fit exact probabilities, and whatever drafts gives the same text."""

from importlib import import_module

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise, exponentials
from mmspec.decoding.sampling import Sampling
from support import factory
from support.chi_square import check_fit, warped
from support.conformance_cases import (
    DRAFTINGS,
    TREES,
    by_turns,
    check_replies,
    in_turn,
    questions,
)
from support.factory_layouts import change_tensors

VOCABULARY = 6
PROMPT = [1, 5, 4, 2, 5]
COUNT = 300
SAMPLINGS = {
    "T1": Sampling(1.0),
    "top-k": Sampling(1.3, top_k=3),
    "top-p": Sampling(1.0, top_p=0.7),
    "all": Sampling(0.8, top_k=4, top_p=0.8),
}


@pytest.fixture(scope="session")
def llama(checkpoints):
    """A target of six tokens, no two equally likely."""
    sizes = {"vocab_size": VOCABULARY, "layers": 1, "hidden_size": 32, "heads": 2}
    sizes |= {"key_value_heads": 2, "intermediate_size": 64}
    path = factory.tiny_llama(checkpoints / "six", **sizes)
    head = torch.randn(VOCABULARY, 32, generator=torch.Generator().manual_seed(0)) / 4
    change_tensors(path, lambda tensors: tensors | {"lm_head.weight": head.numpy()})
    return path


@pytest.fixture(scope="session")
def model(llama, backend):
    """The same on a backend."""
    return load_backend(backend).load(llama, device="cpu")


@pytest.fixture(scope="session")
def rows(llama):
    """transformers' logits after the prompt and after the prompt and each token, in float64."""
    model = LlamaForCausalLM.from_pretrained(llama, dtype=torch.float64).eval()
    prompts = [[*PROMPT, token] for token in range(VOCABULARY)]
    with torch.inference_mode():
        logits = model(torch.tensor(prompts)).logits.numpy()
    return {(): logits[0, -2]} | {(token,): logits[token, -1] for token in range(VOCABULARY)}


@pytest.mark.parametrize(("backend", "name"), in_turn(SAMPLINGS, others=True), indirect=["backend"])
def test_pairs_of_tokens_come_as_often_as_the_target_says(model, rows, name):
    """Plain decoding over as many seeds, against the joint distribution of the first two tokens."""
    sampling, counts = SAMPLINGS[name], np.zeros((VOCABULARY, VOCABULARY))
    target = model.open_target(sampling)
    target.extend(Segment([PROMPT]))
    for seed in range(COUNT):
        target.rewind(len(PROMPT))
        pair = []
        for _ in range(2):
            pair += target.verify(None, Noise(seed, target.length)).best
            target.commit([], pair[-1])
        counts[tuple(pair)] += 1
    first = warped(rows[()], sampling)[:, None]
    second = [warped(rows[(token,)], sampling) for token in range(VOCABULARY)]
    check_fit(counts, first * second)


def test_the_noise_is_the_same_everywhere(backend):
    noise, count, vocabulary = Noise(7, 1234), 5, 32_064
    reference = exponentials(np, HOST.keys(noise, count), np.arange(vocabulary, dtype=np.uint32))
    own = import_module(f"mmspec_{backend}.device.framework")
    place = torch.device("cpu")
    if backend == "mlx":
        place = import_module("mmspec_mlx.device.kernels").GPU
    framework = own.framework(place)
    rule = framework.sampler(Sampling(1.0))
    ours = rule.exponentials(framework.keys(noise, count), framework.ids(vocabulary))
    np.testing.assert_array_max_ulp(np.asarray(ours), reference, maxulp=2)


@pytest.mark.parametrize("size", [2500, 2560])
@pytest.mark.parametrize("steps", [2, 8, 10**6])
def test_of_equals_the_first_is_taken(backend, steps, size):
    p = np.random.default_rng(steps).integers(0, steps, (4, 3000)).astype(np.float32) / steps
    array = torch.tensor if backend == "torch" else import_module("mlx.core").array
    values, places = import_module(f"mmspec_{backend}.device.framework").top(array(p)[:, :size], 12)
    expected = np.argsort(-p[:, :size], axis=-1, kind="stable")[:, :12]
    np.testing.assert_array_equal(places.tolist(), expected)
    np.testing.assert_array_equal(values.tolist(), np.take_along_axis(p, expected, axis=-1))


def covering(shift):
    """Every drafting once: chains of 1 to 8 tokens, lengths by cost, trees of each kind."""
    hows = [*({"gamma": k} for k in range(1, 9)), {"gamma": "auto"}]
    hows += [{"gamma": 4, "tree": tree} for tree in TREES.values()]
    for row, drafting in enumerate(DRAFTINGS):
        yield drafting, hows[(row + 3 * shift) % len(hows)]
    yield "lookup", {"gamma": 3, "tree": [None, *TREES.values()][shift % 3]}
    yield "MT+lookup", {"gamma": 3, "tree": [None, *TREES.values()][(shift + 1) % 3]}
    yield "M+lookup", {"gamma": "auto"}
    yield "MTC+lookup", {"gamma": 2, "adaptive": True}
    yield "MTC", {"gamma": 4, "adaptive": True}
    yield "MT", {"gamma": 3, "adaptive": True}


@pytest.mark.parametrize(("backend", "name"), in_turn(SAMPLINGS), indirect=["backend"])
def test_whatever_drafts_the_text_is_plain_samplings(engine, backend, name):
    accepted = drafted = 0
    shift = list(SAMPLINGS).index(name)
    for row, (drafting, how) in by_turns(enumerate(covering(shift)), backend, shift // 2):
        seed = row % 4
        options = Options(
            drafting=drafting, max_new_tokens=12, sampling=SAMPLINGS[name], seed=seed, **how
        )
        asked = questions(1 + seed % 2, 2, seed)
        chat = check_replies(engine, options, asked)
        accepted += chat.answer.statistics.accepted
        drafted += chat.answer.statistics.drafted
    assert 0 < accepted < drafted
