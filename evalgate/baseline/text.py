"""A baseline as JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from evalgate.errors import InvalidInput, Problem
from evalgate.model import Baseline, BaselineCase
from evalgate.protocols import Document
from evalgate.reading.validation import Location, problems_of

KIND = "evalgate-baseline"

SCHEMA_VERSION = 1
# 1: the runs of each case over several gate runs, with raw scores.

_LEFT_OUT = frozenset({"user_usage", "judge_usage", "replies", "failing_since"})


def dump_baseline(baseline: Baseline) -> str:
    """The file's text: a case a line, so that a commit that moves one case changes one line."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "sources": [asdict(source) for source in baseline.sources],
    }
    lines = [json.dumps(_case(case), ensure_ascii=False) for case in baseline.cases]
    body = ",\n".join(f"    {line}" for line in lines)
    fields = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return f'{{\n{fields}  "cases": [\n{body}\n  ]\n}}\n'


def _case(case: BaselineCase) -> dict[str, object]:
    """The case, without what is not always there."""
    return asdict(case, dict_factory=_without_absent)


def _without_absent(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in items if value or name not in _LEFT_OUT}


def load_baseline(document: Document) -> Baseline:
    """The baseline in a file that `dump_baseline` wrote.

    Raises:
        InvalidInput: the file is of a newer evalgate, or damaged; with every problem.
    """
    _check_version(document)
    try:
        # Strict: "1.0" and true are no scores. As JSON: only there strictness takes a list for a tuple.
        baseline = TypeAdapter(Baseline).validate_json(json.dumps(document.value), strict=True)
    except ValidationError as error:
        raise InvalidInput(problems_of(error, file=document.path, position=document.position)) from None
    problems = [
        Problem(document.path, *document.position(location), message)
        for location, message in _contradictions(baseline)
    ]
    if problems:
        raise InvalidInput(problems)
    return baseline


def _check_version(document: Document) -> None:
    version = document.value.get("schema_version") if isinstance(document.value, Mapping) else None
    if isinstance(version, bool) or not isinstance(version, int):
        place = document.position(("schema_version",))
        raise InvalidInput([Problem(document.path, *place, "`schema_version` must be a whole number")])
    if version > SCHEMA_VERSION:
        raise InvalidInput([_newer(document, version)])


def _contradictions(baseline: Baseline) -> Iterator[tuple[Location, str]]:
    if not baseline.sources:
        yield ("sources",), "a baseline names at least one source"
    seen = set()
    for index, case in enumerate(baseline.cases):
        if (case.eval_set_id, case.eval_id) in seen:
            yield ("cases", index), f"the case `{case.eval_id}` of `{case.eval_set_id}` is given twice"
        seen.add((case.eval_set_id, case.eval_id))
        for number, run in enumerate(case.runs):
            if not 0 <= run.source < len(baseline.sources):
                yield ("cases", index, "runs", number, "source"), "there is no such source"
        scored = {name for run in case.runs for name in run.scores}
        for name in sorted(scored - case.metric_fingerprints.keys()):
            yield (
                ("cases", index, "metric_fingerprints"),
                f"`{name}` is missing, which runs of `{case.eval_id}` have a score of",
            )


def _newer(document: Document, version: int) -> Problem:
    return Problem(
        document.path,
        *document.position(("schema_version",)),
        f"this baseline was written by a newer evalgate (schema {version}; this one reads up to "
        f"{SCHEMA_VERSION}): upgrade evalgate, or save the baseline again with `evalgate baseline save`",
    )
