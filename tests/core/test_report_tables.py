"""The tables of a report, by hand."""

from dataclasses import replace

import pytest
from suite_row import plain, row, seconds
from synthetic_run import provenance, write

from mmspec.bench.report import account, against, drafting, faithful, origin, timing
from mmspec.bench.report.contents import plots, sections, summaries
from mmspec.bench.report.merge import merge
from mmspec.bench.report.plots.overlap import combinations
from mmspec.bench.suite.prediction import StepCosts

# A target forward over one to four rows; a drafted token with one and two branches.
COSTS = StepCosts(1, 10, [1.0, 1.1, 1.2, 1.3], [0.1, 0.2]).as_dict()

# Six tokens each.  M: 3 kept and one's own, then 1 and its own, in two rounds.
FAST = row("chart/0", "M", [(3, 3, 4), (1, 1, 2)], identical=True, seconds=seconds(4.0, 5.0))
SLOW = row(
    "chart/0",
    "MT",
    [(3, 0, 1), (3, 2, 3), (1, 1, 2)],
    ["M", "T"],
    identical=True,
    seconds=seconds(5.0, 8.0, draft=1.5, verify=3.3),
)
PLAIN = plain("chart/0", 6, seconds=seconds(6.0, 7.0))
LATER = [
    row("chart/0", "M", [(3, 0, 1)], identical=True, turn=1, images=2, seconds=seconds(2.0, 3.0)),
    row("chart/0", "MT", [(3, 1, 1)], ["M", "T"], turn=1, images=2, seconds=seconds(2.0, 3.0)),
    plain("chart/0", 1, turn=1, images=2),
]


@pytest.fixture
def run(tmp_path):
    def made(*rows, methods=("M", "MT", "none"), **told):
        return merge([write(tmp_path, rows, provenance(methods, costs=[COSTS], **told))])

    return made


def test_block_efficiency_of_methods(run):
    table = drafting.overview(summaries(run(FAST, SLOW, PLAIN, *LATER)))
    # M: 7 tokens in 3 rounds, the answers' own 3 and 1; 4 of 7 drafted were kept, 2 and 0 a round.
    assert table.rows[0] == ("M", "2", "7", "2.33", "2.00", "1.33", "1.00", "57.1 %")
    assert [line[0] for line in table.rows] == ["M", "MT"]


def test_a_draft_of_which_nothing_was_kept_has_zeros_and_no_answers_none(run):
    [useless] = summaries(run(row("chart/0", "M", [(3, 0, 1)]), methods=("M",)))
    line = ("M", "1", "1", "1.00", "1.00", "0.00", "0.00", "0.0 %")
    assert drafting.overview([useless]).rows == [line]
    nothing = replace(useless, rounds=0, block_efficiency=0.0, macro_block_efficiency=0.0)
    assert drafting.overview([nothing]).rows[0][3:7] == ("", "", "", "")


def test_block_efficiency_by_images_and_turns(run):
    made = run(FAST, SLOW, PLAIN, *LATER)
    table = drafting.by_images(made)
    assert table.columns == ("method", "1 image", "2 images", "all")
    assert table.rows == [("M", "3.00", "1.00", "2.33"), ("MT", "2.00", "1.00", "1.75")]
    first, later = drafting.by_task(made, later=False), drafting.by_task(made, later=True)
    assert first.rows == [("M", "3.00"), ("MT", "2.00")]
    assert later.rows == [("M", "1.00"), ("MT", "1.00")]


def test_methods_beside_the_best_single_view(run):
    rows = [
        row(f"{task}/{n}", method, [(3, kept, kept + 1)] * 2, branches, images=images)
        for task, images, kept_by in (
            ("chart", 1, {"M": 3, "T": 1, "MT": 3, "viskip:M": 3}),
            ("edit", 2, {"M": 3, "T": 1, "MT": 3, "viskip:M": 3}),
            ("vist", 5, {"M": 0, "T": 1, "MT": 0, "viskip:M": 1}),
            ("video", 4, {"M": 3, "T": 3, "MT": 3, "viskip:M": 3}),
        )
        for method, kept in kept_by.items()
        for branches in [list(method[-2:].strip(":"))]
        for n in range(3)
    ]
    methods = ["M", "T", "MT", "viskip:M", "none"]
    made = run(*rows, *(plain(f"{task}/0", 8) for task in ("chart", "vist")), methods=methods)
    whole, by_images = against.tables(made)
    assert whole.columns[2] == "than M"  # viskip:M keeps more, but does not draft in every round
    assert "3.25 of M" in whole.note
    assert "12 samples" in whole.note
    assert [line[:3] for line in whole.rows] == [
        ("T", "2.50", "-23.1 %"),
        ("MT", "3.25", "+0.0 %"),
        ("viskip:M", "3.50", "+7.7 %"),
    ]
    assert by_images.columns == (
        *("method", "1 image, than M", "2 images, than M", "4 images, than M"),
        *("5 images, than T", "1, 2 and 5 images, than M"),
    )
    by_method = {line[0]: line[1:] for line in by_images.rows}
    assert by_method["M"] == ("", "", "", "-50.0 % (-50.0 % to -50.0 %)", "")
    assert by_method["MT"][0] == "+0.0 % (+0.0 % to +0.0 %)"
    assert by_method["T"][4].startswith("-33.3 %")


@pytest.mark.parametrize(("samples", "said"), [(19, True), (20, False)])
def test_intervals_from_few_samples_say_so(run, samples, said):
    rows = [
        row(f"chart/{n}", method, [(3, kept, kept + 1)], [method])
        for n in range(samples)
        for method, kept in (("M", 3), ("T", 1))
    ]
    [whole] = against.tables(run(*rows, methods=["M", "T"]))
    assert ("too narrow" in whole.note) == said


def test_without_a_single_view_nothing_stands_beside_it(run):
    assert against.tables(run(SLOW, PLAIN, methods=["MT", "none"])) == []
    assert against.tables(run(PLAIN, methods=["none"])) == []


def test_acceptance_by_place(run):
    table = drafting.by_position(summaries(run(FAST, SLOW, PLAIN)))
    assert table.columns == (
        *("method", "token 1", "token 2", "token 3", "2 after 1", "3 after 2"),
    )
    assert table.rows[0] == ("M", "100.0 %", "100.0 %", "100.0 %", "100.0 %", "100.0 %")
    assert table.rows[1] == ("MT", "66.7 %", "50.0 %", "0.0 %", "100.0 %", "0.0 %")


def test_speed_ups_stand_beside_prediction_and_formula(run):
    table = timing.speed_ups(summaries(run(FAST, SLOW, PLAIN)))
    # M: 6/4 and 7/5.  Predicted: 6 over 0.3 + 1.3 and 0.1 + 1.1; formula: over twice 0.3 + 1.3.
    assert table.rows[0] == ("M", "1.50", "1.50", "1.40", "1.40", "2.14", "1.88")
    assert table.rows[1][:5] == ("MT", "1.20", "1.20", "0.88", "0.88")


def test_speeds_and_stages(run):
    made = run(FAST, SLOW, PLAIN, *LATER)
    assert timing.speeds(summaries(made)).rows[2][:3] == ("none", "1.0", "1.0")
    lines = timing.stages(made).rows
    assert [line[:2] for line in lines] == [("1 image", name) for name in ("M", "MT", "none")]
    assert lines[1][2:] == ("", "", "", "1.500", "3.300", "0.200", "5.000")


def test_a_difference_from_the_prediction_is_accounted_for(run):
    found = account.section(run(FAST, SLOW, PLAIN))
    comparison, parts = found.tables
    # MT: 6 over (7 x 0.2 + 1.3 + 1.3 + 1.1) predicted, 6/5 measured.
    assert comparison.rows[1] == ("MT", "1.18", "1.20", "+2.0 %")
    assert [line[0] for line in parts.rows] == ["M"]
    (remark,) = found.remarks
    # Predicted: 0.4 drafting and 2.4 verifying for 6 plain; measured: 4 in the loop for 6.
    assert remark == (
        "M: 1.50 times plain, -30.0 % from 2.14, predicted from single forwards. The rest, of the "
        "predicted time: drafting -14.3 %, verifying -85.7 %, other +142.9 %; plain decoding "
        "+0.0 %. Most of it is loop."
    )
    assert parts.rows[0] == (
        *("M", "1000.000", "1000.000", "66.667", "", "", "400.000", "", "666.667", "loop"),
    )


def test_fits_of_weights_are_predicted_and_named_where_they_were_not_measured(run):
    rounds = [(3, 0, 1), (3, 2, 3), (1, 1, 2)]
    weights = [[0.5, 0.5]] * 3
    spent = seconds(6.0, 8.0, draft=2.2, verify=3.7)
    fitted = row("chart/0", "adaptive:MT", rounds, ["M", "T"], weights=weights, seconds=spent)
    fitted = replace(fitted, rounds=[each._replace(draft_seconds=0.35) for each in fitted.rounds])
    methods = "MT", "adaptive:MT", "none"
    _, without = account.accounts(run(SLOW, fitted, PLAIN, methods=methods))
    assert (without.refit, without.predicted.parts["draft"]) == (0, pytest.approx(1.4))
    assert without.unmeasured == (
        "the fitting of weights, which was not measured: a round drafts +250.00 ms beside MT"
    )
    measured = COSTS | {"refit": [0.0, 0.5]}
    made = replace(run(SLOW, fitted, PLAIN, methods=methods), costs=[StepCosts(**measured)])
    _, known = account.accounts(made)
    assert (known.refit, known.unmeasured) == (pytest.approx(1.0), "")
    assert known.predicted.speed_up == pytest.approx(6 / (1.4 + 1.0 + 3.7))


@pytest.mark.parametrize(
    ("spent", "plain_seconds", "reason"),
    [
        ({"draft": 3.4, "verify": 3.7}, 6.0, "draft"),
        ({"draft": 1.4, "verify": 5.7}, 6.0, "verify"),
        ({"draft": 1.4, "verify": 3.7}, 6.0, "loop"),
        ({"draft": 1.4, "verify": 3.7, "decode": 5.1}, 4.0, "plain decoding"),
        ({"draft": 0.4, "verify": 3.7, "decode": 4.1}, 6.0, "draft"),
    ],
)
def test_the_reason_is_the_part_that_differs_most(spent, plain_seconds, reason, run):
    slow = row("chart/0", "MT", [tuple(r[:3]) for r in SLOW.rounds], ["M", "T"])
    slow.seconds.update({"decode": 7.1} | spent)
    (found,) = account.accounts(run(slow, plain("chart/0", 6, seconds=seconds(plain_seconds))))
    assert found.reason == reason
    assert not found.close


def test_without_costs_nothing_is_predicted(run, tmp_path):
    made = merge([write(tmp_path, [FAST, PLAIN], provenance(["M", "none"], costs=[]))])
    assert account.section(made).remarks == ["Nothing to compare: no costs were measured."]
    assert timing.speed_ups(summaries(made)).rows[0][-2:] == ("", "")


def test_every_divergence_is_listed(run):
    found = {"position": 2, "margin": 3e-05, "outcome": "near-tie"}
    parted = row("chart/0", "MT", [(3, 2, 3)], identical=False, divergence=found)
    parted.pieces[2] = " red"
    made = run(FAST, parted, PLAIN)
    assert faithful.same_tokens(made).rows == [
        ("M", "1", "1", "100.00 %", "0", "0"),
        ("MT", "1", "0", "0.00 %", "1", "0"),
    ]
    (line,) = faithful.divergences(made).rows
    assert line == ("chart/0", "MT", "near-tie", "'x'", "' red'", "0", "2", "3.00e-05")


def test_facts_of_target_and_draft_with_and_without_images(run):
    methods = ("none", "none:blank", "draft", "draft:blank")
    rows = [
        row(sample, method, [(0, 0, 1)], (), facts={"asked": 4, "right": right})
        for sample, every in {"chart/0": (4, 1, 3, 0), "spot/0": (2, 1, 1, 1)}.items()
        for method, right in zip(methods, every, strict=True)
    ]
    table = faithful.facts(run(*rows, methods=methods))
    assert table.columns == ("task", "target", "target, blank", "draft", "draft, blank")
    assert table.rows[0] == (
        "chart",
        *("100.0 % (4/4)", "25.0 % (1/4)", "75.0 % (3/4)", "0.0 % (0/4)"),
    )
    assert table.rows[-1][:2] == ("all", "75.0 % (6/8)")
    assert faithful.facts(run(FAST, PLAIN)) is None


def test_what_was_left_out_and_what_answers_noted(run):
    skipped = [{"sample": "chart/7", "reason": "no image"}]
    noted = row("chart/1", "M", notes=["pooled"])
    made = run(FAST, PLAIN, noted, skipped=skipped)
    assert origin.left_out(made).rows == [("chart/7", "no image")]
    assert origin.remarks(made).rows == [("M", "pooled", "1")]
    assert origin.remarks(run(FAST, PLAIN)) is None
    settings = dict(origin.settings(made).rows)
    assert settings["target"] == "mini (SHA-256 0123456789ab)"
    assert settings["threads"] == "OMP_NUM_THREADS 2"


def test_tokens_that_exactly_some_methods_got_right(run):
    # M keeps 0, 1, 2 and 4; MT 1, 2 and 4; the last token is each one's own.
    counts = combinations(run(FAST, SLOW, PLAIN))
    assert counts == {
        frozenset({"M"}): 1,
        frozenset({"M", "MT"}): 3,
        frozenset(): 2,
    }
    other = row("chart/0", "MT", [(3, 0, 1)], ["M", "T"])
    assert not combinations(run(FAST, other, PLAIN))


def test_a_run_without_drafts_has_a_report_too(run):
    made = run(PLAIN, methods=("none",))
    drawn = plots(made, ())
    assert [plot.name for plot in drawn] == ["stages", "latency"]
    found = sections(made, summaries(made), (), drawn)
    titles = [each.title for each in found]
    assert titles == ["What was run", "Time", "Predicted and measured", "Answers", "Settings"]
    assert found[3].remarks == ["No answer was compared with plain decoding."]


def test_notes_that_differ_in_numbers_alone_are_one(run):
    notes = ["M: 393 of 384, pooled to 36", "M: 385 of 384, pooled to 36"]
    noted = [row(f"vist/{n}", "M", notes=[note]) for n, note in enumerate(notes)]
    plain = [replace(each, method="none", notes=[]) for each in noted]
    made = run(*plain, *noted)
    assert origin.remarks(made).rows == [("M", "M: 385 to 393 of 384, pooled to 36", "2")]
