"""Write baselines as JSON, and read baselines and any `results.json`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace

from pydantic import TypeAdapter, ValidationError

from evalgate.baselines.history import build_baseline_case
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import Baseline, BaselineSource, CaseResult, Record
from evalgate.datasets.results_io import get_case_adapter, load_record, split_record
from evalgate.documents.strict_json import Location, parse_json
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.system.gc import pause_gc

KIND = "evalgate-baseline"

SCHEMA_VERSION = 1
# 1: the runs of each case over several gate runs, with raw scores.

_LEFT_OUT = frozenset({"user_usage", "judge_usage", "replies", "failing_since", "divergence"})


def dump_baseline(baseline: Baseline) -> str:
    """Return a baseline as JSON text with one line for each case; `path` and `version` are left out."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "sources": [asdict(source) for source in baseline.sources],
    }
    if baseline.files:
        head["files"] = [asdict(each) for each in baseline.files]
    lines = [
        json.dumps(asdict(case, dict_factory=_drop_absent), ensure_ascii=False) for case in baseline.cases
    ]
    body = ",\n".join(f"    {line}" for line in lines)
    fields = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return f'{{\n{fields}  "cases": [\n{body}\n  ]\n}}\n'


def _drop_absent(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in items if value or name not in _LEFT_OUT}


def load_baseline(document: Document) -> Baseline:
    """Read the baseline in a file that `dump_baseline` wrote.

    Raises:
        InvalidInputError: a newer evalgate wrote the file, or its content is not a valid baseline.
    """
    _check_version(document)
    try:
        # Strict, because "1.0" and true are no scores. Only from JSON does strict mode accept a list for a
        # tuple.
        baseline = TypeAdapter(Baseline).validate_json(json.dumps(document.value), strict=True)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=document.path, position=document.find_position)
        ) from None
    problems = [
        Problem(document.path, *document.find_position(location), message)
        for location, message in _find_inconsistencies(baseline)
    ]
    if problems:
        raise InvalidInputError(problems)
    return baseline


def _check_version(document: Document) -> None:
    version = document.value.get("schema_version") if isinstance(document.value, Mapping) else None
    if isinstance(version, bool) or not isinstance(version, int):
        position = document.find_position(("schema_version",))
        raise InvalidInputError(
            [Problem(document.path, *position, "`schema_version` must be a whole number")]
        )
    if version > SCHEMA_VERSION:
        raise InvalidInputError([_build_newer_problem(document, version)])


def _find_inconsistencies(baseline: Baseline) -> Iterator[tuple[Location, str]]:
    if not baseline.sources:
        yield ("sources",), "a baseline names at least one source"
    seen = set()
    for index, case in enumerate(baseline.cases):
        if case.key in seen:
            yield ("cases", index), f"the case `{case.eval_id}` of `{case.eval_set_id}` is given twice"
        seen.add(case.key)
        for number, run in enumerate(case.runs):
            if not 0 <= run.source < len(baseline.sources):
                yield ("cases", index, "runs", number, "source"), "there is no such source"
        scored = {name for run in case.runs for name in run.scores}
        for name in sorted(scored - case.metric_fingerprints.keys()):
            yield (
                ("cases", index, "metric_fingerprints"),
                f"`{name}` is missing, which runs of `{case.eval_id}` have a score of",
            )


def _build_newer_problem(document: Document, version: int) -> Problem:
    return Problem(
        document.path,
        *document.find_position(("schema_version",)),
        f"this baseline was written by a newer evalgate (schema {version}; this one reads up to "
        f"{SCHEMA_VERSION}): upgrade evalgate, or save the baseline again with `evalgate baseline save`",
    )


def load_baseline_or_results(data: bytes, shown_as: str) -> Baseline:
    """Read a baseline, or a `results.json` as a baseline of one gate run.

    Args:
        data: The content of the file.
        shown_as: The name of the file in errors, and the `path` of the returned baseline.

    Raises:
        InvalidInputError: the file is neither a baseline nor a `results.json`, is damaged, or was written
            by a newer evalgate.
    """
    found = _load_results_by_case(data, shown_as)
    if found is not None:
        return found
    document = parse_json(data, shown_as)
    if is_baseline(document):
        return replace(load_baseline(document), path=shown_as)
    record = load_record(data, shown_as)
    return _build_from_cases(record, record.cases, shown_as)


def _load_results_by_case(data: bytes, shown_as: str) -> Baseline | None:
    """Read a `results.json` as a baseline, case by case, so that only one full case result is in memory.

    Return None if the file does not have one line for each case, as evalgate writes it.
    """
    try:
        record, lines = split_record(data, shown_as)
        read = get_case_adapter().validate_json
        with pause_gc():
            return _build_from_cases(record, (read(line, strict=True) for line in lines), shown_as)
    except (InvalidInputError, ValueError):  # the caller reads the file as a whole and reports the error
        return None


def _build_from_cases(record: Record, cases: Iterable[CaseResult], shown_as: str) -> Baseline:
    criteria = record.index_criteria()
    found = tuple(build_baseline_case(case, criteria) for case in cases)
    return Baseline(found, (BaselineSource(record.created_at),), shown_as)


def is_baseline(document: Document) -> bool:
    """Return True if the document is a saved baseline; False for a `results.json` and any other document."""
    return isinstance(document.value, Mapping) and document.value.get("kind") == KIND
