"""Read the quarantine file and apply it: quarantined cases run and are reported, but do not gate.

Each entry has an owner, a reason and an expiry date. In a job that tests an unmerged change, the file of
the target branch counts: a change cannot excuse the cases that it breaks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import build_case_quote, join_quoted, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    CaseKey,
    CaseMetric,
    CasePolicy,
    CaseResult,
    EvalSet,
    Quarantine,
)
from evalgate.documents.config_file import ConfigDocument, parse_yaml, read_config_document
from evalgate.documents.validation_errors import list_case_names, translate_validation_error
from evalgate.system.pull_requests import describe_unmerged_change, read_text_at_base

RECOVERED_RUNS = 10
"""Passed runs in a row after which a notice suggests ending a quarantine."""

CasePolicies: TypeAlias = Mapping[CaseKey, CasePolicy]


def _require_text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


_NonBlankText = Annotated[str, AfterValidator(_require_text)]


class _QuarantineEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    case: _NonBlankText
    owner: _NonBlankText
    reason: _NonBlankText
    expires: date
    """The last day of the quarantine."""


@frozen
class QuarantineFile:
    """Location of the quarantine file: the workspace and the path in it."""

    folder: Path
    """Folder of the workspace. In CI jobs that test a change, it is a git checkout."""
    path: str
    """Path of the file as the user wrote it: relative to `folder`, or absolute."""


@frozen
class QuarantineResult:
    """Policies of all cases, with notices about the quarantine."""

    case_policies: CasePolicies
    notices: tuple[str, ...] = ()
    is_verified: bool = True
    """False if the entries of the change itself were used, because git does not know the change's target
    branch."""


def apply_quarantine(
    file: QuarantineFile,
    eval_sets: Iterable[EvalSet],
    case_policies: CasePolicies,
    *,
    today: date,
    environ: Mapping[str, str],
    is_part: bool = False,
) -> QuarantineResult:
    """Return the policies of the cases, in which the cases of all entries that count are quarantined.

    Entries count up to their day `expires`. For a job that tests an unmerged change, only entries of the
    target branch count. If git does not know this branch, the entries of the change count.

    Args:
        file: location of the quarantine file.
        eval_sets: the eval sets of the run.
        case_policies: policies of the cases, without quarantine.
        today: the current day.
        environ: environment variables of the CI job, which show whether it tests an unmerged change.
        is_part: True if only some cases were selected. Then an entry that matches no case is not an error.

    Raises:
        InvalidInputError: the file is unreadable or invalid, or an entry matches no case or a protected case.
    """
    keys = {
        (each.eval_set_id, case.eval_id): (each, case.eval_id) for each in eval_sets for case in each.cases
    }
    document = read_config_document(file.folder / file.path, file.path)
    entries = _parse_entries(document)
    if problems := list(_find_misfits(document, entries, keys, case_policies, is_part=is_part)):
        raise InvalidInputError(sorted(problems))
    settled = _resolve_entries(file, entries, environ)
    # An entry that the change itself adds does not count yet: a change must not quarantine what it breaks.
    fresh = [entry.case for entry in entries if settled is not None and entry not in settled]
    notices = [_describe_fresh(fresh)] if fresh else []
    combined = dict(case_policies)
    for entry in entries if settled is None else settled:
        found = _find_matching_keys(entry, keys)
        if found and entry.expires < today:
            notices.append(_describe_expired(entry))
        elif entry.expires >= today:
            about = Quarantine(entry.owner, entry.reason, entry.expires.isoformat())
            combined |= {key: replace(combined.get(key, CasePolicy()), quarantine=about) for key in found}
    return QuarantineResult(combined, tuple(notices), is_verified=settled is not None)


def find_recovered(cases: Sequence[CaseResult], baseline: Baseline) -> Iterator[str]:
    """Yield a notice for each quarantined case that passes now and passed its last `RECOVERED_RUNS` runs.

    The last runs are the newest stored runs in the baseline. A case is left out if it, or one of its gating
    metrics, has changed after these runs.
    """
    before = baseline.index_cases()
    quote = build_case_quote(case.key for case in cases)
    for case in cases:
        old = before.get(case.key)
        passes = case.status == "passed"
        if passes and case.quarantine is not None and old is not None and _has_recovered(case, old):
            yield (
                f"{quote(case.key)} is quarantined and passed its last {RECOVERED_RUNS} runs in the "
                f"baseline: {case.quarantine.owner} can take it out."
            )


def _has_recovered(case: CaseResult, old: BaselineCase) -> bool:
    newest = old.runs[-RECOVERED_RUNS:]
    metrics = [each for each in case.metrics if each.gates]
    if case.fingerprint != old.fingerprint or len(newest) < RECOVERED_RUNS:
        return False
    if any(old.metric_fingerprints.get(each.name) != each.fingerprint for each in metrics):
        return False
    return all(
        run.outcome == "answered" and all(_has_met(each, run.scores.get(each.name)) for each in metrics)
        for run in newest
    )


def _has_met(metric: CaseMetric, score: float | None) -> bool:
    return metric.range.is_met(metric.range.low if score is None else score, metric.threshold)


def _parse_entries(document: ConfigDocument) -> tuple[_QuarantineEntry, ...]:
    try:
        return TypeAdapter(tuple[_QuarantineEntry, ...]).validate_python(document.value or ())
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(
                error,
                file=document.path,
                position=document.find_position,
                known_keys=lambda location: _QuarantineEntry.model_fields if location else (),
            )
        ) from None


def _find_misfits(
    document: ConfigDocument,
    entries: Sequence[_QuarantineEntry],
    keys: Mapping[CaseKey, tuple[EvalSet, str]],
    case_policies: CasePolicies,
    *,
    is_part: bool,
) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        position = document.find_position((index, "case"))
        found = _find_matching_keys(entry, keys)
        if not found and not is_part:
            yield Problem(document.path, *position, f"no case is called `{entry.case}`: remove the entry")
        protected = [key[1] for key in found if case_policies.get(key, CasePolicy()).protected]
        if protected:
            message = f"{join_quoted(protected)} must never fail (`protected`), so it cannot be quarantined"
            yield Problem(document.path, *position, message)


def _find_matching_keys(
    entry: _QuarantineEntry, keys: Mapping[CaseKey, tuple[EvalSet, str]]
) -> list[CaseKey]:
    return [
        key
        for key, (eval_set, eval_id) in keys.items()
        if any(
            fnmatchcase(name, entry.case)
            for name in list_case_names(eval_set.eval_set_id, eval_set.path, eval_id)
        )
    ]


def _describe_fresh(cases: Sequence[str]) -> str:
    what = pluralize(len(cases), "quarantine")
    return f"{what} of this change will count when it is merged: {', '.join(cases)}."


def _describe_expired(entry: _QuarantineEntry) -> str:
    return (
        f"The quarantine of {entry.case} ended on {entry.expires}: it gates again. {entry.owner} mends it, "
        "or says until when."
    )


def _resolve_entries(
    file: QuarantineFile, entries: Sequence[_QuarantineEntry], environ: Mapping[str, str]
) -> Sequence[_QuarantineEntry] | None:
    """Return the quarantine entries that count.

    If an unmerged change is tested, the entries of the target branch count. Return () if the branch's file is
    missing or wrong. Return None if git does not know the branch: then the caller lets `entries` count, and
    reports that they are not verified. In all other jobs `entries` count.
    """
    if not describe_unmerged_change(environ):
        return entries
    text = read_text_at_base(file.folder, file.path, environ)
    if text is None:
        return None
    try:
        return _parse_entries(parse_yaml(text, file.path))
    except InvalidInputError:
        return ()
