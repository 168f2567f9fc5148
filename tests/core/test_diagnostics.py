"""`check` tells near-ties from bugs, also across backends; `doctor` says what is missing."""

from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

from mmspec.chat import calibration
from mmspec.chat.calibration import finding_file
from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.diagnostics import across as across_module
from mmspec.diagnostics import doctor
from mmspec.diagnostics.across import across, difference
from mmspec.diagnostics.check import NEAR_TIES, Place, check, describe_divergence, place_after
from mmspec.diagnostics.doctor import examine
from mmspec.diagnostics.prompts import user_prompt
from mmspec.exactness.finding import Finding
from mmspec_bench.prompts import world_prompts
from mmspec_bench.suite.rows import append, read_rows
from support.stand_ins import Letters, Meddler
from support.suite_row import row

OPTIONS = Options(drafting="MT", gamma=3, max_new_tokens=24)


def test_a_wrong_token_is_a_bug_with_its_place_and_gap(pair_engine, monkeypatch):
    model = pair_engine.target.model
    original = type(model).open_target
    meddled = lambda *a: Meddler(original(*a), wrong=77, length=40)  # noqa: E731
    monkeypatch.setattr(type(model), "open_target", meddled)
    report = check(pair_engine, [user_prompt("What is in the picture?")], OPTIONS)
    (comparison,) = report.comparisons
    assert (report.outcome, report.exit_code) == ("bug", 1)
    assert comparison.divergence.second == 77
    assert comparison.divergence.shortfall >= comparison.divergence.gap > 0


def test_a_place_has_the_noise_of_the_answer(pair_engine):
    """What check holds a divergence to is what the loop has chosen by."""
    options = replace(OPTIONS, sampling=Sampling(1.0), seed=3, drafting="none")
    prompt = user_prompt("What is in the picture?")
    chat = pair_engine.chat(options)
    list(chat.send(prompt.message))
    tokens = chat.answer.token_ids
    for at in range(6):
        place = place_after(pair_engine, prompt.message, tokens[:at], options)
        assert int(place.scores()[0].argmax()) == tokens[at]


HOT = Sampling(1.0)


@pytest.mark.parametrize(("slack", "expected"), [(5e-5, "near-tie"), (5e-3, "bug")])
def test_a_sampled_near_tie_is_one_of_logits_with_their_noise(slack, expected):
    """The second token is moved to within `slack` of the first, far away as its own logit is."""
    noise = Noise(2, 9)
    logits = np.array([3.0, 0.0, 0.0, -1.0], dtype=np.float32)
    scores, _ = Place(logits, HOT, noise).scores()
    logits[1] += scores.max() - scores[1] - slack
    place = Place(logits, HOT, noise)
    first = int(place.scores()[0].argmax())
    found = describe_divergence([first], [1], place, Letters())
    assert found.gap == found.shortfall == pytest.approx(slack, rel=0.1)
    assert found.outcome(NEAR_TIES["float32"]) == expected


@pytest.mark.parametrize(
    "sampling", [Sampling(1.0, top_k=2), Sampling(1.0, top_p=0.75)], ids=["top-k", "top-p"]
)
@pytest.mark.parametrize(
    ("third", "expected"), [(-2e-5, "near-tie"), (-1.0, "bug")], ids=["at the edge", "beyond"]
)
def test_what_rounding_may_cut_off_is_a_near_tie_however_the_noise_falls(sampling, third, expected):
    """The third token is kept or not by a rounding, and its noise makes it the winner."""
    second = np.log(0.25 / 0.5) if sampling.top_p < 1 else np.log(0.5)
    logits = np.array([0.0, second, second + third], dtype=np.float32)
    winner = lambda n: int(Place(logits, HOT, Noise(1, n)).scores()[0].argmax())  # noqa: E731
    noise = Noise(1, next(n for n in range(1000) if winner(n) == 2))
    place = Place(logits, sampling, noise)
    kept = int(np.where([True, True, False], place.scores()[0], -np.inf).argmax())
    found = describe_divergence([kept], [2], place, Letters())
    assert found.outcome(NEAR_TIES["float32"]) == expected
    assert (found.shortfall is None) == (expected == "bug")


def test_where_one_token_is_left_there_is_no_gap_and_a_row_says_so(tmp_path):
    place = Place(np.array([0.0, 3.0, 1.0], dtype=np.float32), replace(HOT, top_k=1), Noise(1, 1))
    found = describe_divergence([1], [2], place, Letters())
    assert (found.gap, found.shortfall) == (None, None)
    entry = {"position": found.position, "margin": found.gap, "outcome": found.outcome(1.0)}
    append(tmp_path / "rows.jsonl", [row(divergence=entry)])
    assert read_rows(tmp_path / "rows.jsonl") == [row(divergence=entry)]


BACKENDS = ["torch", "mlx"]
SHORT = Options(max_new_tokens=8, gamma=2)
STAGES = ["pixels", "vision features", "projected features", "prefill logits"]
TOKENS = ["plain tokens", "speculative tokens"]
WRONG = 77


def loading(draft="none"):
    return cache(lambda backend, directory: load(str(directory), draft, backend=backend))


PROMPTS = [world_prompts(1, size=32)[0], user_prompt("What is it?")]


def test_quantization_error_is_told_apart_from_port_error(mlx_path, llava_path):
    report = across(loading(), mlx_path, BACKENDS, PROMPTS[:1], SHORT, reference=llava_path)
    assert report.passed
    for stage in (1, 2, 3):
        assert report.port["mlx"][stage].relative < 1e-5
        assert report.quantization[stage].relative > 1e-3
    assert all(stage.passed is None for stage in report.quantization)


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_is_off_is_the_one_that_fails(llava_path, monkeypatch, stage):
    """Pixels must be equal; other stages may differ by the tolerance of their dtype."""
    original, engines = across_module._arrays, []

    def changed(engine, prompt):
        engines.append(engine)
        for name, array in original(engine, prompt):
            error = 1e-6 if name == "pixels" else 1e-3
            yield name, array * np.float32(1 + error * (name == stage and len(engines) == 2))

    monkeypatch.setattr(across_module, "_arrays", changed)
    report = across(loading(), llava_path, BACKENDS, PROMPTS[:1], SHORT)
    assert [each.stage for each in report.port["mlx"] if not each.passed] == [stage]
    assert (report.passed, report.exit_code) == (False, 1)


def test_inf_is_no_magnitude_beside_which_all_is_near():
    first, second = np.array([[np.inf, 1.0], [2.0, 1.0]], dtype=np.float32)
    assert difference(first, second)[1] > 0.1


def test_answers_may_part_only_at_a_near_tie(pair_paths, monkeypatch):
    target, draft = pair_paths
    original = across_module.answer_once

    def meddled(engine, message, options):
        answer = original(engine, message, options)
        if engine.backend.name == "mlx":
            answer.token_ids[3] = WRONG
        return answer

    monkeypatch.setattr(across_module, "answer_once", meddled)
    arguments = loading(str(draft)), target, BACKENDS, PROMPTS[1:], SHORT
    report = across(*arguments)
    failed = [each for each in report.port["mlx"] if not each.passed]
    assert ([each.stage for each in failed], report.exit_code) == (TOKENS, 1)
    for each in failed:
        assert (each.divergence.position, each.divergence.second) == (3, WRONG)
        gap, shortfall = each.divergence.gap, each.divergence.shortfall
        assert gap < 0.9 * shortfall, "the wrong token is not the second likeliest"
        assert each.divergence.outcome(0.99 * shortfall) == "bug"
    limit = 1.01 * max(each.divergence.shortfall for each in failed)
    monkeypatch.setitem(across_module.NEAR_TIES, "float32", limit)
    assert across(*arguments).passed


def test_findings_of_this_version_and_gpu_have_a_line_each(pair_engine, monkeypatch, tmp_path):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    finding = Finding(1.04, is_probed=True, rows=ExactRows(4, 64))
    own = pair_engine.backend.describe()
    for quantize, other in (
        *[("none", {}), ("int4", {})],
        *[("none", {"torch": "2.1.0"}), ("none", {"gpu": "H100"})],
    ):
        model = SimpleNamespace(device="cpu", dtype="bfloat16", quantize=quantize)
        target = SimpleNamespace(name="tiny", directory=pair_engine.target.directory, model=model)
        backend = SimpleNamespace(name="torch", describe=partial(dict, own, **other))
        finding_file(backend, target).write(finding)
    names = ("tiny, bfloat16, torch on cpu", "tiny, bfloat16 int4, torch on cpu")
    assert examine()["exact"] == dict.fromkeys(names, finding.line())
    monkeypatch.setattr(calibration, "version", lambda _: "0")
    assert examine()["exact"] == {}


def test_what_is_broken_or_not_installed_is_named_with_what_gets_it(monkeypatch):
    def broken(name):
        raise ImportError("libcudart.so.12: cannot open\nshared object")

    monkeypatch.setattr(doctor, "load_backend", broken)
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    found = examine()
    assert "libcudart" in found["backends"]["torch"]["error"]
    fixes = {each["what"]: each["fix"] for each in found["missing"]}
    assert fixes["pyarrow: parquet files of benchmarks"] == 'pip install "mmspec[bench]"'
    assert any("libcudart" in what and "force-reinstall" in fixes[what] for what in fixes)
