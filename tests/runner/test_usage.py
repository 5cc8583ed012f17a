"""Usage of a run and its known cost: an unknown cost is never 0."""

import json
from dataclasses import replace

import pytest

from evalgate.agents.workers.protocol import parse_usage
from evalgate.baselines.serialization import dump_baseline, load_baseline
from evalgate.config.token_prices import Tokens
from evalgate.core.types import (
    Attempt,
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseResult,
    Comparison,
    Failure,
    ModelUsage,
    Record,
    Usage,
)
from evalgate.datasets.results_io import dump_record, load_record
from evalgate.documents.strict_json import parse_json
from evalgate.gating.case_changes import compare_usage
from evalgate.llm.usage import MeteredUsage, RunUsage
from evalgate.metrics.metric_summaries import compute_totals
from evalgate.reporting.baseline_lines import describe_run_costs
from evalgate.reporting.findings import format_total_cost
from evalgate.reporting.summary_lines import describe_run_totals
from evalgate.reporting.terminal import TerminalReport
from evalgate.runner.checkpoint.row_codec import dump_run, dump_usage, load_run, load_usage
from tests.builders import a_case_result, a_record, a_run_result

FREE, PAID, UNPRICED = Usage(), Usage(10, 5, 0.5), Usage(10, 5, None)
PARTLY = Usage(20, 10, None, known_usd=0.5)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"input_tokens": 10, "output_tokens": 5}, UNPRICED),
        ({"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}, PAID),
        ({"input_tokens": 10, "output_tokens": 5, "cost_usd": 0}, Usage(10, 5, 0.0)),
        ({"cost_usd": 0.5}, Usage(0, 0, 0.5)),
        ({}, FREE),
    ],
)
def test_a_cost_that_is_not_reported_is_not_known(message: dict[str, object], expected: Usage) -> None:
    assert parse_usage({"type": "usage", **message}) == expected


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((FREE, PAID), PAID),
        ((FREE, UNPRICED), UNPRICED),
        ((PAID, UNPRICED), PARTLY),
        ((UNPRICED, PAID), PARTLY),
        ((PARTLY, PAID), Usage(30, 15, None, known_usd=1.0)),
        ((PAID, PAID), Usage(20, 10, 1.0)),
    ],
)
def test_a_sum_keeps_what_is_known_of_its_cost(parts: tuple[Usage, Usage], whole: Usage) -> None:
    assert parts[0] + parts[1] == whole


@pytest.mark.parametrize(
    ("unpriced", "spent_usd", "expected"),
    [(0, 0.5, PAID), (1, 0.0, UNPRICED), (1, 0.5, Usage(10, 5, None, known_usd=0.5))],
)
def test_what_judges_used_has_no_cost_where_a_call_has_no_price(
    unpriced: int, spent_usd: float, expected: Usage
) -> None:
    calls = MeteredUsage(2, Tokens(10, 5), spent_usd, unpriced)
    totals = calls.to_paid_usage() + calls.to_spared_usage()
    assert (totals.usage, totals.spared_usage) == (expected, expected)
    assert load_usage(dump_usage(RunUsage(totals, calls))) == RunUsage(totals, calls)


def a_record_of(*usages: Usage | None, user: Usage | None = None) -> Record:
    cases = [a_case_of(f"case-{number}", used, user) for number, used in enumerate(usages)]
    return replace(a_record(*cases), totals=compute_totals(cases))


def a_case_of(name: str, used: Usage | None, user: Usage | None = None) -> CaseResult:
    return a_case_result(name, runs=(replace(a_run_result(), usage=used, user_usage=user),))


@pytest.mark.parametrize(
    ("record", "cost", "known", "told"),
    [
        (a_record_of(None), 0.0, 0.0, ""),
        (a_record_of(FREE), 0.0, 0.0, ""),
        (a_record_of(PAID, None, PAID), 1.0, 0.0, "1.0000 USD"),
        (a_record_of(UNPRICED), None, 0.0, "the cost of 1 run is not known"),
        (a_record_of(UNPRICED, PAID, PARTLY), None, 1.0, "at least 1.0000 USD: the cost of 2 runs is not known"),
        (a_record_of(PAID, user=UNPRICED), None, 0.5, "at least 0.5000 USD: the cost of 1 run is not known"),
    ],
)  # fmt: skip
def test_totals_say_what_is_not_known(record: Record, cost: float | None, known: float, told: str) -> None:
    assert (record.totals.cost_usd, record.totals.known_usd) == (cost, known)
    assert format_total_cost(record) == told
    assert (told in list(describe_run_totals(record))) is bool(told)
    assert (f" s, {told}\n" in TerminalReport().render(record)) is bool(told)
    document = json.loads(dump_record(record))
    assert document["totals"]["cost_usd"] == cost
    assert load_record(dump_record(record), "results.json").totals == record.totals


def test_an_attempt_without_a_cost_makes_that_of_its_run_unknown() -> None:
    attempt = Attempt("crashed", Failure("exited", "gone"), usage=UNPRICED)
    run = replace(a_run_result(), usage=PAID, earlier_attempts=(attempt,))
    cases = [a_case_result(runs=(run,))]
    record = replace(a_record(*cases), totals=compute_totals(cases))
    assert format_total_cost(record) == "at least 0.5000 USD: the cost of 1 run is not known"


@pytest.mark.parametrize("used", [FREE, PAID, UNPRICED, PARTLY, Usage(1, 2, None, ("m",), 0.1)])
def test_a_journal_keeps_that_a_cost_is_not_known(used: Usage) -> None:
    run = replace(a_run_result(), usage=used, user_usage=used, judge=ModelUsage(spared=1, spared_usage=used))
    again = load_run(dump_run(run))
    assert (again.usage, again.user_usage, again.judge) == (used, used, run.judge)


def test_an_older_record_reads_as_it_was_written() -> None:
    record = a_record_of(PAID, Usage(10, 5, 0.0))
    document = json.loads(dump_record(record))
    assert "known_usd" not in document["totals"]
    assert load_record(json.dumps(document), "results.json") == record


def a_baseline_case(used: Usage | None) -> BaselineCase:
    run = BaselineRun(0, "answered", {}, 1.0, used, used, used)
    return BaselineCase("travel", "case-0", "passed", "f", {}, (run,))


@pytest.mark.parametrize("used", [None, FREE, PAID, UNPRICED, PARTLY])
def test_a_baseline_keeps_that_a_cost_is_not_known(used: Usage | None) -> None:
    baseline = Baseline((a_baseline_case(used),), (BaselineSource("2026-11-20T00:00:00+00:00"),))
    text = dump_baseline(baseline)
    assert load_baseline(parse_json(text.encode(), "main.json")).cases == baseline.cases


@pytest.mark.parametrize(
    ("then", "now", "costs", "told"),
    [
        (PAID, replace(PAID, cost_usd=0.7), (0.5, 0.7), "0.7000 USD (+0.2000 USD)"),
        (PAID, PAID, (0.5, 0.5), ""),
        (UNPRICED, PAID, (None, 0.5), ""),
        (PAID, PARTLY, (0.5, None), ""),
    ],
)
def test_costs_are_compared_where_both_are_known(
    then: Usage, now: Usage, costs: tuple[float | None, float | None], told: str
) -> None:
    before, after = compare_usage([(a_case_of("case-0", now), a_baseline_case(then))])
    assert before is not None
    assert after is not None
    assert (before.cost_usd, after.cost_usd) == costs
    sentence = describe_run_costs(Comparison("main.json", then=before, now=after))
    assert told in sentence
    assert ("USD" in sentence) is bool(told)
