"""Write results in the folder layout of watsonx Orchestrate's evaluation framework 1.6.9.

The folder is named by the time of evalgate's run. `orchestrate evaluations analyze` and the framework's
comparison of two runs read `summary_metrics.csv`.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count

from evalgate.core.sanitize import to_file_name
from evalgate.core.types import (
    CaseResult,
    Event,
    JsonObject,
    Message,
    Record,
    RunMetric,
    RunResult,
    ToolCall,
    ToolResult,
)
from evalgate.metrics.scoring import decide_case_status

_PREFIX = "orchestrate/"
_SUCCESS = "journey_success"
_COUNTS = (
    "total_tool_calls",
    "expected_tool_calls",
    "correct_tool_calls",
    "missed_tool_calls",
    "relevant_tool_calls",
    "tool_calls_with_incorrect_parameter",
)
"""Counts that the metrics of journeys keep in their details, under watsonx Orchestrate's names."""
_LLM_STEPS = ("text", "tool_call")
"""Types of the assistant's messages that count as steps of the model."""
_BOOLEANS = ("keyword_match",)
_NO_FIELDS: JsonObject = dict.fromkeys(
    (
        *("interaction", "event", "conversational_search_metadata", "tool_calls", "tool_call_id"),
        *("response_time", "thread_id", "message_id", "trace_id", "run_id"),
    )
)


class OrchestrateReport:
    """`summary_metrics.csv` with a row for each run of a case, and JSON files with the run's messages."""

    file_name = "orchestrate"

    def render_files(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of each file.

        - `<time>/messages/`: messages and metrics of each run of a case.
        - `<time>/<case>.metadata.json`: the id of the session, for each run with a known session.
        - `<time>/summary_metrics.csv`, as the last file.

        `<time>` is `results` if the record has no time. If a case has several runs, `.run1`, `.run2`, …
        follow the name of the case. watsonx Orchestrate instead would overwrite the files of the first run.
        """
        # watsonx Orchestrate names its folders by the time: 2026-01-31_12-30-59.
        created_at = record.created_at
        folder = f"{datetime.fromisoformat(created_at):%Y-%m-%d_%H-%M-%S}" if created_at else "results"
        rows: list[JsonObject] = []
        for case, case_name in zip(record.cases, _name_files(record.cases), strict=True):
            for run in case.runs:
                row = build_summary_row(case, run)
                rows.append(row)
                name = case_name + (f".run{run.run}" if len(case.runs) > 1 else "")
                path = f"{folder}/messages/{name}"
                messages = list(_iter_messages(run))
                yield f"{path}.messages.json", _dump(messages)
                yield (
                    f"{path}.messages.analyze.json",
                    _dump([{"message": message, "reason": None} for message in messages]),
                )
                yield f"{path}.metrics.json", _dump(row)
                if run.session_id:
                    yield f"{folder}/{name}.metadata.json", _dump({"thread_id": run.session_id})
        yield f"{folder}/summary_metrics.csv", format_summary(rows)


def _name_files(cases: Sequence[CaseResult]) -> list[str]:
    """Return a unique file name, without an ending, for each case: the case's id.

    If several cases share an id, the eval set's id comes before it. A number makes equal names unique.
    """
    own = [to_file_name(case.eval_id) for case in cases]
    counts, names = Counter(own), dict[str, None]()
    for case, name in zip(cases, own, strict=True):
        base = name if counts[name] == 1 else to_file_name(f"{case.eval_set_id}.{case.eval_id}")
        unique, numbers = base, count(2)
        while unique in names:
            unique = f"{base}-{next(numbers)}"
        names[unique] = None
    return list(names)


def build_summary_row(case: CaseResult, run: RunResult) -> JsonObject:
    """Return the values of one run as a row of `summary_metrics.csv`, by column.

    Metrics that watsonx Orchestrate does not have are columns too.
    """
    metrics = {metric.name.removeprefix(_PREFIX): metric for metric in run.metrics}
    messages = list(_iter_messages(run))
    details = [metric.details for metric in run.metrics if metric.details and metric.name.startswith(_PREFIX)]
    counts = next((each for each in details if _COUNTS[0] in each), {})
    success = metrics.pop(_SUCCESS, None)
    status = success.status if success else decide_case_status([run], run.metrics)
    is_error = run.outcome != "answered" or any(each.gating_status == "errored" for each in run.metrics)
    return {
        "run_idx": run.run,
        "total_steps": len(messages),
        "llm_steps": sum(each["role"] == "assistant" and each["type"] in _LLM_STEPS for each in messages),
        **{name: counts[name] for name in _COUNTS if name in counts},
        **{name: _to_value(name, metric) for name, metric in metrics.items()},
        "is_success": status == "passed",
        "dataset_name": case.eval_id,
        "is_error": int(is_error),
        **{
            f"{metric.name.removeprefix(_PREFIX)}_comment": metric.reason
            for metric in run.metrics
            if metric.reason
        },
    }


def _to_value(name: str, metric: RunMetric) -> object:
    if metric.score is None:
        return None
    if name in _BOOLEANS:
        return metric.score == 1.0
    return int(metric.score) if name == "text_match" else metric.score


def format_summary(rows: list[JsonObject]) -> str:
    """Return the rows as CSV, with a column for each key of any row; booleans are `True` and `False`."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or ["run_idx", "dataset_name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _iter_messages(run: RunResult) -> Iterator[dict[str, object]]:
    for turn in run.turns:
        yield _build_message("user", turn.user, "text")
        if turn.actual is None:
            continue
        yield from map(_build_event, turn.actual.events)
        if turn.actual.response is not None:
            yield _build_message("assistant", turn.actual.response, "text")


def _build_event(event: Event) -> dict[str, object]:
    if isinstance(event, Message):
        message = _build_message("assistant", event.text, "text" if event.payload is None else "interaction")
        return message if event.payload is None else message | {"interaction": {"payload": event.payload}}
    if isinstance(event, ToolResult):
        return _build_tool_result(event)
    return _build_tool_call(event)


def _build_tool_call(call: ToolCall) -> dict[str, object]:
    args = call.arguments or {}
    fields = {"type": "tool_call", "name": call.name, "args": args, "id": call.id or ""}
    function = {"name": call.name, "arguments": json.dumps(args, ensure_ascii=False)}
    calls = [{"id": call.id or "", "function": function, "type": "function"}]
    return _build_message("assistant", json.dumps(fields, ensure_ascii=False), "tool_call") | {
        "tool_calls": calls
    }


def _build_tool_result(result: ToolResult) -> dict[str, object]:
    held = result.result
    content = held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)
    fields = {
        "type": "tool_response",
        "content": content,
        "name": result.name,
        "tool_call_id": result.id or "",
    }
    message = _build_message("assistant", json.dumps(fields, ensure_ascii=False), "tool_response")
    return message | {"tool_call_id": result.id or ""}


def _build_message(role: str, content: str, kind: str) -> dict[str, object]:
    return {"role": role, "content": content, "type": kind, **_NO_FIELDS}


def _dump(value: list[dict[str, object]] | Mapping[str, object]) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"
