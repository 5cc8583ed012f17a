"""`evalgate baseline export`: every raw score of a baseline, one row each, for other programs."""

import csv
import io
import json
from collections.abc import Iterator
from typing import TypeAlias

from evalgate.errors import InvalidInput
from evalgate.hostile import without_commands
from evalgate.model import Baseline

COLUMNS = (
    "eval_set_id",
    "eval_id",
    "metric",
    "score",
    "outcome",
    "created_at",
    "commit",
    "branch",
    "duration_s",
)

Row: TypeAlias = tuple[str | float | None, ...]


def export_baseline(baseline: Baseline, format_name: str) -> str:
    """One row for each metric of each run, in the order of the cases, as `csv` or `json`.

    A score is empty (null) where the metric gave none; `outcome` says whether the agent answered.

    Raises:
        InvalidInput: a name holds what a CI runner obeys, which CSV cannot spell in another way.
    """
    rows = _rows(baseline)
    if format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        return _harmless(text.getvalue())
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows]
    return "[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n" if lines else "[]\n"


def _harmless(text: str) -> str:
    if without_commands(text) != text:
        message = (
            "the baseline holds a name that a CI runner would take for a command, and CSV cannot spell it "
            "otherwise: use --format json"
        )
        raise InvalidInput(message)
    return text


def _rows(baseline: Baseline) -> Iterator[Row]:
    for case in baseline.cases:
        for run in case.runs:
            source = baseline.sources[run.source]
            for metric, score in run.scores.items():
                yield (
                    case.eval_set_id,
                    case.eval_id,
                    metric,
                    score,
                    run.outcome,
                    source.created_at,
                    source.commit,
                    source.branch,
                    run.duration_s,
                )
