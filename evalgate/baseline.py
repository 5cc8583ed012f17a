"""A baseline as JSON, and the baseline that a record makes."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evalgate.errors import InvalidInput, Problem
from evalgate.model import Baseline, BaselineCase, CaseResult, Record
from evalgate.protocols import Document
from evalgate.validation import problems_of

KIND = "evalgate-baseline"

SCHEMA_VERSION = 1
# 1: one set of runs per case, with raw scores.


def baseline_of(record: Record, *, commit: str | None = None, source: str = "") -> Baseline:
    """The baseline that later runs are held against when `record` is the standard."""
    return Baseline(
        cases=tuple(_baseline_case(case) for case in record.cases),
        created_at=record.created_at,
        commit=commit,
        source=source,
    )


def _baseline_case(case: CaseResult) -> BaselineCase:
    scores = {
        metric.name: tuple(
            next((found.score for found in run.metrics if found.name == metric.name), None)
            for run in case.runs
        )
        for metric in case.metrics
    }
    return BaselineCase(case.eval_set_id, case.eval_id, case.status, case.fingerprint, scores)


def dump_baseline(baseline: Baseline) -> str:
    """The file's text: a case a line, so that a commit that moves one case changes one line."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "created_at": baseline.created_at,
        "commit": baseline.commit,
    }
    lines = [json.dumps(_case_json(case), ensure_ascii=False) for case in baseline.cases]
    body = ",\n".join(f"    {line}" for line in lines)
    fields = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return f'{{\n{fields}  "cases": [\n{body}\n  ]\n}}\n'


def _case_json(case: BaselineCase) -> dict[str, object]:
    return {
        "eval_set_id": case.eval_set_id,
        "eval_id": case.eval_id,
        "status": case.status,
        "fingerprint": case.fingerprint,
        "scores": {name: list(scores) for name, scores in case.scores.items()},
    }


def load_baseline(document: Document) -> Baseline:
    """The baseline in a file that `dump_baseline` wrote.

    Raises:
        InvalidInput: the file is of a newer evalgate, or damaged; with every problem.
    """
    value = document.value
    version = value.get("schema_version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InvalidInput([_newer(document, version)])
    try:
        return _adapter().validate_python(value)
    except ValidationError as error:
        raise InvalidInput(problems_of(error, file=document.path, position=document.position)) from None


def _newer(document: Document, version: int) -> Problem:
    return Problem(
        document.path,
        *document.position(("schema_version",)),
        f"this baseline was written by a newer evalgate (schema {version}; this one reads up to "
        f"{SCHEMA_VERSION}): upgrade evalgate, or save the baseline again with `evalgate baseline save`",
    )


def _adapter() -> TypeAdapter[Baseline]:
    # Built on use: a run without a baseline does not pay for it.
    return TypeAdapter[Any](Baseline)
