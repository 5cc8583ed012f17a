"""A record as OpenTelemetry events, in the JSON of OTLP: `gen_ai.evaluation.result` and `evalgate.verdict`.

Names of events and attributes are from the semantic conventions for generative AI (status: development).
Names that the conventions lack begin with `evalgate.`
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeAlias

from evalgate.core.types import CaseResult, JsonObject, Record, RunMetric, RunResult

EVENT = "gen_ai.evaluation.result"
VERDICT_EVENT = "evalgate.verdict"
_BATCH = 512
"""Maximum number of events in one request, as in OpenTelemetry's own exporters."""
_INFO, _WARN = 9, 13  # severity numbers of OpenTelemetry
_LABELS = {"passed": "pass", "failed": "fail"}
_OTHER_ERROR = "_OTHER"

_Attribute: TypeAlias = str | bool | int | float | None


def iter_requests(record: Record, resource: Mapping[str, str]) -> Iterator[JsonObject]:
    """Yield the bodies of OTLP requests: an event for each metric of each run, and an event for the verdict.

    A metric that was not evaluated has no event. In a run without an answer, each metric of the case has an
    event without a score. `resource` are OpenTelemetry's resource attributes, such as `service.name`.
    """
    scope: JsonObject = {"name": "evalgate", "version": record.evalgate_version}
    shared: JsonObject = {"attributes": _build_attributes(resource)}
    events = chain.from_iterable(_iter_case_events(record, case) for case in record.cases)
    left = chain(events, [_build_verdict_event(record)])
    while batch := list(islice(left, _BATCH)):
        logs: JsonObject = {"scope": scope, "logRecords": batch}
        yield {"resourceLogs": [{"resource": shared, "scopeLogs": [logs]}]}


def _iter_case_events(record: Record, case: CaseResult) -> Iterator[JsonObject]:
    thresholds = {metric.name: metric.threshold for metric in case.metrics}
    for run in case.runs:
        for metric in run.metrics or _list_missing_scores(case, run):
            if metric.status == "not_evaluated" and metric.score is None:
                continue
            attributes = _describe_score(run, metric, thresholds.get(metric.name))
            about = {
                "gen_ai.agent.name": record.agent.app_name,
                "gen_ai.conversation.id": run.session_id or None,
                "evalgate.eval_set.id": case.eval_set_id,
                "evalgate.case.id": case.eval_id,
                "evalgate.case.gates": case.gates,
                "evalgate.run": run.run,
            }
            severity = _WARN if metric.status == "errored" else _INFO
            yield _build_event(record, EVENT, {**attributes, **about}, severity)


def _list_missing_scores(case: CaseResult, run: RunResult) -> Iterator[RunMetric]:
    """Yield an errored result for each metric of a case, if `run` has no answer; otherwise nothing."""
    if run.failure is not None:
        for metric in case.metrics:
            yield RunMetric(metric.name, None, "errored", run.failure.message, gates=metric.gates)


def _describe_score(run: RunResult, metric: RunMetric, threshold: float | None) -> dict[str, _Attribute]:
    error = None
    if metric.status == "errored":
        error = metric.failure or (run.failure.kind if run.failure else "") or _OTHER_ERROR
    return {
        "gen_ai.evaluation.name": metric.name,
        "gen_ai.evaluation.score.value": None if metric.score is None else float(metric.score),
        "gen_ai.evaluation.score.label": _LABELS.get(metric.status),
        "gen_ai.evaluation.explanation": metric.reason or None,
        "error.type": error,
        "evalgate.threshold": None if threshold is None else float(threshold),
        "evalgate.metric.gates": metric.gates,
    }


def _build_verdict_event(record: Record) -> JsonObject:
    verdict, totals = record.verdict, record.totals
    attributes: dict[str, _Attribute] = {
        "gen_ai.agent.name": record.agent.app_name,
        "evalgate.verdict": verdict.status,
        "evalgate.exit_code": verdict.exit_code,
        "evalgate.cases": totals.cases,
        "evalgate.cases.passed": totals.passed,
        "evalgate.cases.failed": totals.failed,
        "evalgate.cases.errored": totals.errored,
        "evalgate.cases.not_evaluated": totals.not_evaluated,
        "evalgate.duration_s": float(record.duration_s),
    }
    body = {"stringValue": " ".join(verdict.reasons)}
    return {**_build_event(record, VERDICT_EVENT, attributes, _INFO), "body": body}


def _build_event(
    record: Record, name: str, attributes: Mapping[str, _Attribute], severity: int
) -> JsonObject:
    nanoseconds = str(round((record.timestamp + record.duration_s) * 1000) * 1_000_000)
    return {
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": severity,
        "eventName": name,
        "attributes": _build_attributes(attributes),
    }


def _build_attributes(values: Mapping[str, _Attribute]) -> list[JsonObject]:
    return [{"key": key, "value": value} for key, value in _convert_values(values.items())]


def _convert_values(items: Iterable[tuple[str, _Attribute]]) -> Iterator[tuple[str, JsonObject]]:
    """Yield each attribute that is not None, with its value as an `AnyValue` of OTLP."""
    for key, value in items:
        match value:
            case None:
                continue
            case bool():
                yield key, {"boolValue": value}
            case int():
                yield key, {"intValue": str(value)}  # 64-bit integers are texts in the JSON of Protobuf
            case float():
                yield key, {"doubleValue": value}
            case _:
                yield key, {"stringValue": value}
