"""The report of `doctor --full`: what is measured, resumed, skipped, and left out for size."""

import json
from functools import partial

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.exactness import probe
from mmspec.ground.errors import BackendError, HubError, WriteError
from mmspec_bench.compare.run_mmspec import DECODING
from mmspec_bench.compare.script_io import Reply, Run
from mmspec_bench.full_report import measurements, run, stages
from mmspec_bench.full_report import pair as pairs
from mmspec_bench.full_report.pair import Inapplicable, NumberType, Pair
from mmspec_bench.full_report.report_file import LIMIT, ReportFile, passed, text_of
from mmspec_bench.full_report.run import Lines, full_report
from mmspec_bench.full_report.stages import Stage, about_seconds, stages_of
from mmspec_bench.measure import calibrate
from mmspec_bench.weight_memory import weight_bytes
from support.row_faults import bits_by_rows
from support.stand_ins import quiet

QUIET = Lines(quiet, quiet)
FLOAT, PACKED = NumberType("float32", dtype="float32"), NumberType("4 bits", bits=4)


@pytest.fixture
def brief(monkeypatch, few_timings, tmp_path):
    """A report of one prompt, one number type, and a probe of few rows and positions."""
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measurements, "PROMPTS", 1)
    monkeypatch.setattr(measurements, "OPTIONS", Options(gamma=5, max_new_tokens=6, exact="off"))
    monkeypatch.setattr(measurements, "REPEATS", 1)
    monkeypatch.setattr(measurements, "COST_REPEATS", 1)
    monkeypatch.setattr(measurements, "GAMMAS", (2,))
    for module in (measurements, probe):
        monkeypatch.setattr(module, "CANDIDATES", (ExactRows(8, 8),))
    monkeypatch.setattr(calibrate, "CONTEXTS", (64,))
    monkeypatch.setattr(probe, "POSITIONS", 200)
    for name, kinds in {"FLOATS": (FLOAT,), "LOADED": (), "COPIED": ()}.items():
        monkeypatch.setattr(pairs, name, kinds)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "report.json"


@pytest.fixture
def tiny(pair_paths):
    """The tiny pair on both backends."""
    target, draft = ({"torch": path, "mlx": path} for path in pair_paths)
    return Pair(target, draft)


@pytest.fixture
def file(out):
    return ReportFile(out, {"model": "tiny", "versions": {"torch": 1}}, {})


def stage(name, measure, forwards=1):
    kind, backend = name.split()
    return Stage(kind, backend, measure, 0, forwards)


def number(value):
    return lambda: {"value": value}


def killed():
    raise KeyboardInterrupt


def test_the_report_measures_every_backend_and_a_second_run_repeats_nothing(
    brief, pair_paths, out, monkeypatch
):
    report = full_report(*map(str, pair_paths), out, QUIET)
    found = report["stages"]
    assert [*found] == [
        *(f"{kind} {name}" for name in ("torch", "mlx") for kind in SHORT),
        *("peers mlx", "parity mlx", "exact torch float32", "exact mlx float32"),
    ]
    assert all(passed(each) for each in found.values()), found
    assert "not installed" in found["peers mlx"]["skipped"]
    results = {name: each["result"] for name, each in found.items()}
    assert results["check mlx"]["outcome"] == "identical"
    assert min(results["start torch"]["first_token_seconds"].values()) > 0
    curves = results["costs torch"]
    assert curves["off"]["target"].keys() == curves["on"]["target"].keys() >= {64}
    assert [curves[mode]["exact"] for mode in ("off", "on")] == [False, True]
    assert curves["on"]["exact_rows"] == {"multiple": 8, "most": 8}
    assert results["speed mlx"]["methods"][1]["block_efficiency"] >= 1
    exact = results["exact torch float32"]
    assert [each["exact"] for each in exact["rows"]] == [True]
    assert [each["gamma"] for each in exact["price"]] == [0, 1, 3, 5, 7]
    assert exact["answers"]["on"]["outcomes"] == {"identical": 2, "near-tie": 0, "bug": 0}
    for speeds in (exact["speed"]["off"], exact["speed"]["on"]):
        assert [*speeds] == ["plain", "drafted"]
        assert all(each["median"] > 0 for each in speeds.values())
    assert json.loads(out.read_text()) == json.loads(json.dumps(report))
    assert len(out.read_bytes()) < LIMIT / 4
    monkeypatch.setattr(pairs, "load", None)  # nothing is loaded again
    notes = []
    again = full_report(*map(str, pair_paths), out, Lines(quiet, notes.append))
    assert notes[0] == f"11 of 12 stages are in {out} already"
    assert [note.split(",")[0] for note in notes[1::2]] == ["12 of 12: peers mlx"]
    assert {**again["stages"], "peers mlx": 0} == {
        **json.loads(json.dumps(report))["stages"],
        "peers mlx": 0,
    }


SHORT = ("start", "check", "speed", "costs")


def test_a_kill_loses_the_running_stage_alone_which_runs_last_the_next_time(tiny, file):
    order = []

    def counted(value):
        order.append(value)
        return {"value": value}

    plan = [
        stage("a torch", partial(counted, 1)),
        stage("b torch", killed),
        stage("c torch", partial(counted, 3)),
    ]
    with pytest.raises(KeyboardInterrupt):
        run._run(plan, tiny, file, QUIET)
    assert order == [1]
    second = ReportFile(file.path, file.key, {})
    assert second.resume()
    plan[1] = stage("b torch", partial(counted, 2))
    run._run(plan, tiny, second, QUIET)
    assert order == [1, 3, 2]
    left = json.loads(file.path.read_text())
    assert {name: each["result"]["value"] for name, each in left["stages"].items()} == {
        "a torch": 1,
        "b torch": 2,
        "c torch": 3,
    }
    assert left["starts"] == {"a torch": 1, "b torch": 2, "c torch": 1}


def test_a_failed_stage_is_recorded_the_rest_goes_on_and_it_is_tried_again(tiny, file):
    def out_of_memory():
        raise RuntimeError("out of\nmemory " + "x" * 9999)

    plan = [stage("a torch", out_of_memory), stage("b torch", number(2))]
    run._run(plan, tiny, file, QUIET)
    error = file.stages["a torch"]["error"]
    assert error.startswith("RuntimeError: out of memory x")
    assert len(error) == run.REASON
    assert passed(file.stages["b torch"])
    assert file.as_dict()["exit_code"] == 1
    run._run([stage("a torch", number(1)), stage("b torch", killed)], tiny, file, QUIET)
    assert file.as_dict()["exit_code"] == 0


@pytest.mark.parametrize("key", [{"model": "other"}, {"versions": {"torch": 2}}])
def test_other_models_or_versions_are_measured_anew(file, key):
    file.end("a torch", {"ok": True, "result": {}, "seconds": 1.0})
    assert not ReportFile(file.path, {**file.key, **key}, {}).resume()
    assert ReportFile(file.path, file.key, {}).resume()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"stages": {}}'])
def test_a_file_that_is_no_report_is_replaced(file, content):
    file.path.write_text(content)
    assert not file.resume()


def test_a_full_disk_is_noticed_before_anything_is_measured(tiny, disk):
    file = ReportFile(disk.folder / "report.json", {}, {})
    with disk.full(), pytest.raises(WriteError):
        run._run([stage("a torch", killed)], tiny, file, QUIET)


def test_the_largest_results_give_way_to_their_sizes(file):
    for name, size in {"a": 150_000, "b": 90_000, "c": 80_000}.items():
        result = {"text": "\N{SNOWMAN}" * (size // 6), "exit_code": int(name == "a")}
        file.end(f"{name} torch", {"ok": True, "result": result, "seconds": 1.0})
        assert len(file.path.read_bytes()) <= LIMIT
    written = json.loads(file.path.read_text())["stages"]
    assert written["a torch"]["result"]["left_out"].startswith("150,0")
    assert written["a torch"]["result"]["exit_code"] == 1
    assert written["b torch"]["result"]["text"]
    assert "text" in file.stages["a torch"]["result"]


def test_no_number_of_stages_makes_the_file_too_large():
    result = {"text": "x" * 6000}
    stages = {f"stage {n}": {"ok": True, "result": result} for n in range(100)}
    assert len(text_of({"stages": stages})) <= LIMIT


def test_lines_say_how_long_a_stage_takes_before_and_after(tiny, file):
    notes = []
    file.stages["start torch"] = {
        "ok": True,
        "result": {"load_seconds": 1.0, "token_seconds": 0.5},
        "seconds": 4.0,
    }
    plan = [stage("a torch", number(1), 60), stage("b torch", number(2), 600)]
    run._run(plan, tiny, file, Lines(quiet, notes.append))
    assert notes[:2] == [
        "1 of 2: a torch, about 30 s; all that is left about 6 min",
        "a torch: passed in 0 s",
    ]
    assert file.stages["a torch"]["about_seconds"] == 30


def test_a_stage_takes_about_as_long_as_its_like_did(tiny):
    exact = Stage("exact", "torch", killed, 1, 9, "int8")
    before = about_seconds(exact, tiny, {})
    assert 0 < before < 60
    results = {
        "exact torch float32": {"ok": True, "seconds": 7.0},
        "exact torch int4": {"ok": True, "seconds": 9.0},
        "exact torch float16": {"ok": True, "seconds": 0.1, "skipped": "no room"},
        "exact mlx float32": {"ok": True, "seconds": 99.0},
    }
    assert about_seconds(exact, tiny, results) == 8


def test_a_quantized_copy_is_measured_and_deleted(brief, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = measurements.exactness(tiny, "mlx", PACKED, quiet)
    assert result["answers"]["off"]["answers"] == 2
    assert not [file for file in tmp_path.iterdir() if file.name != "cache"]


def test_every_checkpoint_is_measured_in_its_types(tiny, mlx_path):
    names = {name: [kind.name for kind in tiny.types(name)] for name in ("torch", "mlx")}
    floats = ["float32", "bfloat16", "float16"]
    assert names == {"torch": [*floats, "int8", "int4"], "mlx": [*floats, "8 bits", "4 bits"]}
    packed = Pair({"mlx": mlx_path}, {"mlx": mlx_path})
    assert [kind.name for kind in packed.types("mlx")] == floats


def test_exactness_that_a_kernel_breaks_is_not_found(brief, tiny, monkeypatch):
    bits_by_rows(monkeypatch, "torch")
    for module in (measurements, probe):
        monkeypatch.setattr(module, "CANDIDATES", (ExactRows(1, 8),))
    result = measurements.exactness(tiny, "torch", FLOAT, quiet)
    assert [each["exact"] for each in result["rows"]] == [False]
    assert (result["price"], [*result["answers"]], [*result["speed"]]) == ([], ["off"], ["off"])
    assert "gives a token other bits" in measurements.costs(tiny, "torch", quiet)["on"]["problem"]


def test_a_wrong_verdict_of_the_probe_fails_the_stage(brief, tiny, monkeypatch):
    bits_by_rows(monkeypatch, "torch")
    monkeypatch.setattr(measurements, "rows_are_exact", lambda *_: True)
    monkeypatch.setattr(measurements, "CANDIDATES", (ExactRows(1, 64),))
    monkeypatch.setattr(measurements, "OPTIONS", Options(gamma=5, max_new_tokens=48, exact="off"))
    result = measurements.exactness(tiny, "torch", FLOAT, quiet)
    assert result["answers"]["on"]["outcomes"]["bug"]
    assert result["exit_code"] == 1


def test_mlx_vlm_is_compared_in_processes(brief, tiny):
    commands = []

    def process(command, task, progress):
        commands.append((command[0], task.draft, task.options.get("drafting")))
        assert not command[-1].endswith("run_mmspec") or task.options.keys() >= {*DECODING}
        reply = Reply([1, 2], 10.0, 0.25, 2, 1)
        described = {"versions": {"mlx-vlm": "0.4"}, "exact": True, "device": "gpu"}
        return Run(1.0, 2.0, 2**20, {"default": [reply]}, {}, described)

    result = measurements.against_mlx_vlm(tiny, "/other/python", quiet, process)
    assert [*result] == ["mmspec, plain", "mmspec", "mlx-vlm"]
    assert commands[2] == ("/other/python", None, None)
    assert commands[1][1:] == (str(tiny.draft["mlx"]), None)
    assert result["mlx-vlm"]["mlx-vlm"] == "0.4"
    assert result["mmspec"]["exact"] is True
    assert result["mlx-vlm"]["figures"]["default"]["first_token_seconds"]["median"] == 0.25


def test_without_mlx_vlm_it_says_how_to_name_it(tiny):
    with pytest.raises(Inapplicable, match="--mlx-vlm PYTHON"):
        measurements.against_mlx_vlm(tiny, None, quiet, killed)


def needed_memory(path):
    return int(weight_bytes(path, "float32", packed=False) / pairs.MEMORY_SHARE) - 1


def test_what_does_not_fit_is_skipped_with_the_numbers(brief, pair_paths, out, monkeypatch):
    memory = needed_memory(pair_paths[0])
    monkeypatch.setattr(pairs, "memory_bytes", lambda: memory)
    monkeypatch.setattr(pairs, "load", None)  # nothing is read that would not fit
    stages = full_report(*map(str, pair_paths), out, QUIET)["stages"]
    assert all(passed(each) for each in stages.values())
    del stages["peers mlx"]
    for each in stages.values():
        assert f"take {memory * pairs.MEMORY_SHARE / 1e9:.1f} GB in float32" in each["skipped"]


def test_parity_is_skipped_alone_where_only_unpacked_weights_do_not_fit(
    tiny, mlx_path, monkeypatch
):
    memory = needed_memory(mlx_path)
    monkeypatch.setattr(pairs, "memory_bytes", lambda: memory)
    both = {"mlx": mlx_path, "torch": mlx_path}
    plan = stages_of(Pair(both, both), ["mlx", "torch"], None, quiet)
    skipping = {each.name: each.measure for each in plan}
    for name in ("start torch", "parity torch", "exact torch float32"):
        with pytest.raises(Inapplicable, match="on torch"):
            skipping[name]()
    pairs.require_room("mlx", mlx_path, "auto")


def test_a_copy_that_does_not_fit_the_disk_is_not_written(tiny, monkeypatch):
    class Disk:
        free = 10

    monkeypatch.setattr(pairs, "disk_usage", lambda _: Disk)
    with pytest.raises(Inapplicable, match=r"0\.0 GB free"), tiny.opened("mlx", PACKED):
        pass


def test_enough_memory_skips_nothing(pair_paths, monkeypatch):
    for memory in (needed_memory(pair_paths[0]) + 3, None):
        monkeypatch.setattr(pairs, "memory_bytes", lambda memory=memory: memory)
        pairs.require_room("torch", pair_paths[0], "auto")


def test_without_network_it_says_what_to_do(out):
    with pytest.raises(HubError, match="HF_HUB_OFFLINE") as caught:
        full_report("llava-1.5-7b", "lvlm68m", out, QUIET)
    assert "\n" not in str(caught.value)


def test_without_a_backend_it_says_what_to_install(monkeypatch, out):
    monkeypatch.setattr(run, "installed_backends", list)
    with pytest.raises(BackendError, match="pip install"):
        full_report("mini", "mini-draft", out, QUIET)


def test_stages_have_names_of_their_own(tiny):
    names = [each.name for each in stages_of(tiny, ["torch", "mlx"], None, quiet)]
    assert len(set(names)) == len(names)
    assert stages.OPTIONS.exact == "off"
