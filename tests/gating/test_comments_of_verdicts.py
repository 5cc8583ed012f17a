"""The whole comment for each thing that the comparison can find."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import (
    Baseline,
    BaselineSource,
    CaseMetric,
    CaseResult,
    Criterion,
    Record,
    RunMetric,
    SamplingCost,
)
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result

GOLDEN = Path(__file__).parent / "golden"
GATE = GateConfig(baseline="b.json")
Scores = Sequence[float | None]
"""Of the runs of a case; None: the judge failed."""


def cases(*scores: Scores, prefix: str = "case") -> tuple[CaseResult, ...]:
    found = []
    for number, own in enumerate(scores):
        metric = CaseMetric(RESPONSE, None, 0.0, "not_evaluated", fingerprint="m")
        runs = tuple(
            a_run_result(
                run=run, metrics=(RunMetric(RESPONSE, score, "errored" if score is None else "passed"),)
            )
            for run, score in enumerate(own, 1)
        )
        found.append(a_case_result(f"{prefix}_{number:02d}", metrics=(metric,), runs=runs))
    return tuple(found)


def passed(good: int, runs: int) -> Scores:
    return [1.0] * good + [0.0] * (runs - good)


def judged(
    before: Sequence[Scores],
    now: Sequence[Scores],
    *,
    runs: int | Literal["auto"],
    gate: GateConfig = GATE,
    criterion: Criterion | None = None,
    prefix: str = "case",
) -> Record:
    source = BaselineSource("2026-11-20T00:00:00Z", "0123456789ab", "main")
    baseline: Baseline = build_baseline(a_record(*cases(*before)), source, "b.json")
    record = replace(
        a_record(*cases(*now, prefix=prefix)), effort=SamplingCost(0, 0, 0) if runs == "auto" else None
    )
    criteria = {RESPONSE: criterion or Criterion(RESPONSE, 0.0)}
    thresholds = tuple(
        replace(
            case,
            metrics=tuple(replace(each, threshold=criteria[RESPONSE].threshold) for each in case.metrics),
        )
        for case in record.cases
    )
    return regate_record(replace(record, cases=thresholds), GateRules(gate, runs, criteria), baseline)


STEADY = [passed(10, 10)] * 20
FLAKY = [*[passed(10, 10)] * 14, *[passed(6, 10)] * 6]

VERDICTS: Mapping[str, Callable[[], Record]] = {
    "unchanged": lambda: judged(STEADY, [passed(1, 1)] * 20, runs="auto"),
    "proven": lambda: judged([passed(10, 10)] * 100, [*[passed(10, 10)] * 99, passed(9, 10)], runs=10),
    "no_sign": lambda: judged(FLAKY, [*[passed(1, 1)] * 18, *[passed(0, 1)] * 2], runs="auto"),
    "small_drop": lambda: judged(
        [passed(10, 10)] * 100, [*[passed(9, 10)] * 40, *[passed(10, 10)] * 60], runs=10
    ),
    "better": lambda: judged([*[passed(9, 10)] * 60, *[passed(10, 10)] * 40], [passed(10, 10)] * 100, runs=10),
    "average_fell": lambda: judged(STEADY, [*[passed(9, 10)] * 16, *[passed(8, 10)] * 4], runs=10),
    "case_broke": lambda: judged(STEADY, [*[passed(1, 1)] * 19, passed(0, 4)], runs="auto"),
    "noisy_drop": lambda: judged(STEADY, [*[passed(1, 1)] * 19, passed(0, 1)], runs=1),
    "likely_luck": lambda: judged(FLAKY, [*[passed(1, 1)] * 16, *[passed(0, 1)] * 4], runs=1),
    "noisy_drop_blocks": lambda: judged(
        STEADY,
        [*[passed(1, 1)] * 19, passed(0, 1)],
        runs=1,
        gate=GATE.model_copy(update={"on_inconclusive": "fail"}),
    ),
    "no_baseline": lambda: judged(STEADY, [passed(1, 1)] * 20, runs="auto", prefix="other"),
    "missing_runs": lambda: judged(
        STEADY, [*[[1.0, None, None]] * 7, *[passed(3, 3)] * 13], runs=3
    ),
    "some_missing_runs": lambda: judged(
        STEADY, [*[[1.0, 1.0, None]] * 2, *[passed(3, 3)] * 18], runs=3
    ),
    "below_minimum": lambda: judged(
        FLAKY, [passed(7, 10)] * 20, runs=10, criterion=Criterion(RESPONSE, 0.9, rule="statistical"),
        gate=GATE.model_copy(update={"max_regression": 1.0}),
    ),
    "near_minimum": lambda: judged(
        FLAKY, FLAKY, runs=10, criterion=Criterion(RESPONSE, 0.9, rule="statistical")
    ),
    "suspects": lambda: judged(
        FLAKY, [passed(0, 1), *[passed(1, 1)] * 18, passed(0, 1)], runs="auto",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_the_comment_of_a_verdict_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    rendered = CommentReport().render(VERDICTS[name]())
    golden = GOLDEN / f"{name}.md"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_no_golden_comment_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(VERDICTS)


def test_what_stands_in_the_headline_is_no_statistics() -> None:
    for situation in VERDICTS.values():
        text = " ".join(situation().verdict.reasons).lower()
        assert not any(word in text for word in ("p-value", "alpha", "significant", "p ="))


@pytest.mark.parametrize(
    ("changes", "code", "effect"),
    [
        ({}, 0, "Not blocking."),
        ({"on_inconclusive": "fail"}, 1, "Blocking, as on_inconclusive: fail asks."),
        ({"on_inconclusive": "distinguish"}, 4, "Exit code 4, as on_inconclusive: distinguish asks."),
        ({"on_inconclusive": "fail", "report_only": True}, 0, "Not blocking."),
    ],
)
def test_what_an_inconclusive_verdict_does_is_what_its_sentence_says(
    changes: dict[str, object], code: int, effect: str
) -> None:
    gate = GATE.model_copy(update=changes)
    verdict = judged(STEADY, [*[passed(1, 1)] * 19, passed(0, 1)], runs=1, gate=gate).verdict
    assert (verdict.status, verdict.exit_code) == ("inconclusive", code)
    assert f" {effect} " in verdict.reasons[0]
