"""What the report measures on one backend; every function returns a JSON-serializable object."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.quantization import computed
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.inspection import InspectableModel
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.diagnostics.check import EXIT_CODES, check
from mmspec.diagnostics.parity import parity
from mmspec.diagnostics.prompts import Prompt, user_prompt
from mmspec.diagnostics.single_turn import answer_once
from mmspec.exactness.probe import CANDIDATES, rows_are_exact
from mmspec.ground.errors import ContextError, UsageError
from mmspec_bench import Progress
from mmspec_bench.compare.methods import PeerMethod
from mmspec_bench.compare.runner import PeerResult, RunScript, compare
from mmspec_bench.compare.script_io import Task
from mmspec_bench.full_report.pair import Inapplicable, NumberType, Pair
from mmspec_bench.measure.calibrate import calibrate
from mmspec_bench.measure.costs import draft_sees
from mmspec_bench.measure.exact_price import exact_prices
from mmspec_bench.measure.speed import EngineMethod, measure, question_of, speed
from mmspec_bench.prompts import prompts_for, text_prompts, world_prompts

PROMPTS, REPEATS = 3, 3
OPTIONS = Options(gamma=5, max_new_tokens=64, exact="off")
SAMPLINGS = (GREEDY, Sampling(temperature=0.8))
DRAFTINGS, GAMMAS = ("M", "T", "MT"), (2, 4, 6)
WAYS = {"plain": "none", "drafted": None}
"""Draftings whose speed is compared with exact decoding and without."""
IMAGES = (0, 1, 2, 5)
"""Numbers of images in the questions whose first tokens are timed."""
PRICE_REPEATS, COST_REPEATS = 15, 4


def start(pair: Pair, backend: str) -> dict[str, Any]:
    """Times of loading, of first tokens by number of images, of a plain token; and memory."""
    engine = pair.load(backend)
    engine.backend.reset_peak_memory()
    plain = replace(OPTIONS, drafting="none")
    prompts = {count: _about(engine, count) for count in _image_counts(engine)}
    answer_once(engine, prompts[0].message, plain)  # warms up
    answer = answer_once(engine, prompts[0].message, plain)
    return _described(engine) | {
        "load_seconds": engine.load_seconds,
        "first_token_seconds": {n: _first_token(engine, each) for n, each in prompts.items()},
        "token_seconds": answer.statistics.seconds["decode"] / len(answer.token_ids),
        "peak_memory_bytes": engine.backend.peak_memory(),
    }


def _described(engine: Engine) -> dict[str, Any]:
    model = engine.target.model
    return {"device": model.device, "type": computed(model.dtype, model.quantize)}


def _image_counts(engine: Engine) -> Sequence[int]:
    return IMAGES if engine.target.features else (0,)


def _about(engine: Engine, count: int) -> Prompt:
    """A question about `count` pictures in the image size of the target."""
    [question] = text_prompts(1)
    vision = engine.target.model.config.vision
    prompts = world_prompts(count, size=vision.image_size) if vision else []
    pictures = [prompt.message.pictures[0] for prompt in prompts]
    return user_prompt(question.name, pictures, f"{count} images")


def _first_token(engine: Engine, prompt: Prompt) -> float | None:
    """Seconds from a question to its first token; None if the prompt exceeds the positions."""
    engine.forget()
    one = replace(OPTIONS, drafting="none", max_new_tokens=1)
    try:
        return answer_once(engine, prompt.message, one).statistics.seconds["total"]
    except ContextError:
        return None


def checked(pair: Pair, backend: str) -> dict[str, Any]:
    """Compare drafted answers with plain ones."""
    engine = pair.load(backend)
    return check(engine, prompts_for(engine.target.model.config, PROMPTS), OPTIONS).as_dict()


def exactness(pair: Pair, backend: str, kind: NumberType, progress: Progress) -> dict[str, Any]:
    """Probe numbers of rows until one is exact; then its price, and answers with it and without.

    `speed` has the tokens per second of these. `exit_code` is 1 if a drafted answer differs from
    plain decoding's, but for a near-tie.
    """
    with pair.opened(backend, kind) as engine:
        verdicts, rows = _probed(engine.target.model, progress)
        own = replace(engine, exactness={"on": rows, "off": None})
        prompts = prompts_for(engine.target.model.config, PROMPTS)
        prices = exact_prices(own, prompts[0], PRICE_REPEATS) if rows else []
        modes = ("off", "on") if rows else ("off",)
        answers = {mode: _answers(own, prompts, mode, progress) for mode in modes}
        return _described(engine) | {
            "rows": verdicts,
            "price": [asdict(price) | {"ratio": price.ratio} for price in prices],
            "answers": answers,
            "speed": _speeds(own, prompts, modes, progress),
            "exit_code": max(each["exit_code"] for each in answers.values()),
        }


def _probed(
    model: InspectableModel, progress: Progress
) -> tuple[list[dict[str, Any]], ExactRows | None]:
    """The verdict on each of CANDIDATES up to the first that is exact, and that one."""
    verdicts = []
    for rows in CANDIDATES:
        progress(f"probing {rows.line()}")
        started = perf_counter()
        exact = rows_are_exact(model, rows)
        verdict = {"exact": exact, "seconds": perf_counter() - started}
        verdicts.append(asdict(rows) | verdict)
        if exact:
            return verdicts, rows
    return verdicts, None


def _answers(
    engine: Engine, prompts: Sequence[Prompt], mode: str, progress: Progress
) -> dict[str, Any]:
    """Greedy and sampled answers in a mode of `--exact`: how many equal plain decoding's."""
    progress(f"answering with --exact {mode}")
    options = [replace(OPTIONS, exact=mode, sampling=sampling) for sampling in SAMPLINGS]
    reports = [check(engine, prompts, each) for each in options]
    comparisons = [each for report in reports for each in report.comparisons]
    outcomes = [each.outcome for each in comparisons]
    return {
        "answers": len(comparisons),
        "outcomes": {outcome: outcomes.count(outcome) for outcome in EXIT_CODES},
        "tokens_per_round": mean(each.block_efficiency for each in comparisons),
        "exit_code": EXIT_CODES["bug"] if "bug" in outcomes else 0,
    }


def _speeds(
    engine: Engine, prompts: Sequence[Prompt], modes: Sequence[str], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Tokens per second, plain and drafted, by mode of `--exact`; all in turns."""
    options = {mode: replace(OPTIONS, exact=mode) for mode in modes}
    methods = {
        (mode, word): EngineMethod(f"{word}, exact {mode}", engine, replace(own, drafting=spec))
        for mode, own in options.items()
        for word, spec in WAYS.items()
    }
    speeds = measure([*methods.values()], prompts, REPEATS, progress)
    rates = dict(zip(methods, (asdict(each.tokens_per_second) for each in speeds), strict=True))
    return {mode: {word: rates[mode, word] for word in WAYS} for mode in modes}


def costs(pair: Pair, backend: str, progress: Progress) -> dict[str, Any]:
    """Seconds of target forwards by rows, and of drafted tokens by branches, by context.

    By mode of `--exact`; `on` is only the `problem` if no number of rows is exact.
    """
    engine = pair.load(backend)
    return _described(engine) | {mode: _curves(engine, mode, progress) for mode in ("off", "on")}


def _curves(engine: Engine, mode: str, progress: Progress) -> dict[str, Any]:
    try:
        fields = engine.exact_fields(mode)
    except UsageError as error:
        return {"problem": str(error)}
    measured = calibrate(engine, progress, COST_REPEATS, exact=mode)
    return fields | {"problem": measured.problem} | asdict(measured.calibration)


def speeds(pair: Pair, backend: str, progress: Progress) -> dict[str, Any]:
    """Tokens per second and per round of plain decoding and each drafting; peak memory."""
    engine = pair.load(backend)
    report = speed(
        engine,
        prompts_for(engine.target.model.config, PROMPTS),
        OPTIONS,
        draftings=_draftings(engine),
        gammas=GAMMAS,
        repeats=REPEATS,
        progress=progress,
    ).as_dict()
    del report["provenance"]  # the whole report's
    return report


def _draftings(engine: Engine) -> Sequence[str]:
    if engine.head:
        return (engine.head.kind,)
    return DRAFTINGS if draft_sees(engine) and engine.target.features else ("T",)


def against_mlx_vlm(
    pair: Pair, python: str | None, progress: Progress, run: RunScript
) -> dict[str, Any]:
    """Speed, first tokens and memory of this project and of mlx-vlm, in processes of their own.

    python: of mlx-vlm's environment; None for this one. Raises Inapplicable if it is not there.
    """
    if python is None and not find_spec("mlx_vlm"):
        raise Inapplicable(
            f"mlx_vlm is not installed for {sys.executable}: --mlx-vlm PYTHON names another Python"
        )
    model, draft = pair.model["mlx"], pair.draft["mlx"]
    methods = [
        PeerMethod("mmspec, plain", "run_mmspec", options=_mmspec("none")),
        PeerMethod("mmspec", "run_mmspec", drafts=True, options=_mmspec(None)),
        PeerMethod("mlx-vlm", "run_mlx_vlm", python=python or sys.executable),
    ]
    prompts = prompts_for(read_config(model), PROMPTS)
    with TemporaryDirectory() as folder:
        questions = {"default": [question_of(prompt, Path(folder)) for prompt in prompts]}
        task = Task(str(model), str(draft), "auto", "auto", {}, OPTIONS.max_new_tokens, questions)
        results = compare(methods, task, 1, progress, run)
    return {result.name: _short(result) for result in results}


def _mmspec(drafting: str | None) -> dict[str, Any]:
    return {"backend": "mlx", "drafting": drafting, "gamma": "auto", "exact": "auto"}


def _short(result: PeerResult) -> dict[str, Any]:
    """A peer's result without the versions of this machine, which the report has."""
    short = asdict(result)
    described = short.pop("described")
    exact = {name: value for name, value in described.items() if name.startswith("exact")}
    return short | exact | {"mlx-vlm": described.get("versions", {}).get("mlx-vlm")}


def compared(pair: Pair, backends: Sequence[str]) -> dict[str, Any]:
    """Compare all backends on the last one's files, in the dtype that the first one chooses."""
    directory = pair.model[backends[-1]]
    dtype = pair.load(backends[0]).target.model.dtype
    report = parity(
        lambda backend, model: pair.load(backend, model, dtype),
        directory,
        backends,
        prompts_for(read_config(directory), PROMPTS),
        OPTIONS,
    )
    return report.as_dict()
