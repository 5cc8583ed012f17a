"""Cases that run and are reported, but do not gate: who answers for them, why, and until when.

In a job that tests a change which is not merged, the file of the branch that it goes to counts: a change
cannot excuse the cases that it breaks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.formatting import counted, listed
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, BaselineCase, CasePolicy, CaseResult, EvalSet, Quarantine
from evalgate.documents.config_file import ConfigDocument, parse_yaml, read_config_document
from evalgate.documents.validation import names_of, problems_of
from evalgate.system import git

HEALED = 10
"""Passed runs in a row after which a quarantine is said to be over."""

Key: TypeAlias = tuple[str, str]
Policies: TypeAlias = Mapping[Key, CasePolicy]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


_Said = Annotated[str, AfterValidator(_not_blank)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    case: _Said
    owner: _Said
    reason: _Said
    expires: date
    """The last day on which it holds."""


@frozen
class QuarantineFile:
    """Where the entries stand."""

    folder: Path
    """The workspace, which is a git checkout where it matters."""
    path: str
    """As the user wrote it."""


@frozen
class Quarantined:
    """The policies of all cases, and what is to be said."""

    policies: Policies
    notices: tuple[str, ...] = ()
    is_settled: bool = True
    """Whether the entries are those that count; else git does not know what the change is merged into, and
    they are its own."""


def quarantined(
    file: QuarantineFile,
    eval_sets: Iterable[EvalSet],
    policies: Policies,
    *,
    today: date,
    environ: Mapping[str, str],
    is_part: bool = False,
) -> Quarantined:
    """The policies with the quarantine of every case that an entry names.

    Args:
        file: the entries.
        eval_sets: what is evaluated.
        policies: what holds for the cases otherwise.
        today: entries that expired before gate again.
        environ: of the CI job, which says whether a change is tested that is not merged.
        is_part: some cases were picked for now, so an entry may name others.

    Raises:
        InvalidInput: with every entry that is incomplete, names no case, or names a protected one.
    """
    keys = {
        (each.eval_set_id, case.eval_id): (each, case.eval_id) for each in eval_sets for case in each.heads
    }
    document = read_config_document(file.folder / file.path, file.path)
    entries = _entries(document)
    problems = list(_misfits(document, entries, keys, policies, is_part=is_part))
    if problems:
        raise InvalidInput(sorted(problems))
    settled = _settled(file, entries, environ)
    fresh = [] if settled is None else [entry.case for entry in entries if entry not in settled]
    counting = entries if settled is None else settled
    remarks = [_uncounted(fresh)] if fresh else []
    held = dict(policies)
    for entry in counting:
        found = _matching(entry, keys)
        if found and entry.expires < today:
            remarks.append(_expired(entry))
        elif entry.expires >= today:
            about = Quarantine(entry.owner, entry.reason, entry.expires.isoformat())
            held |= {key: replace(held.get(key, CasePolicy()), quarantine=about) for key in found}
    return Quarantined(held, tuple(remarks), is_settled=settled is not None)


def healed(cases: Sequence[CaseResult], baseline: Baseline) -> Iterator[str]:
    """Quarantines that are over, by the newest runs of the baseline."""
    before = {(case.eval_set_id, case.eval_id): case for case in baseline.cases}
    for case in cases:
        old = before.get((case.eval_set_id, case.eval_id))
        if case.quarantine is not None and old is not None and _passes_steadily(case, old):
            yield (
                f"{case.eval_id} is quarantined and passed its last {HEALED} runs in the baseline: "
                f"{case.quarantine.owner} can take it out."
            )


def _passes_steadily(case: CaseResult, old: BaselineCase) -> bool:
    newest = old.runs[-HEALED:]
    return len(newest) == HEALED and all(
        run.outcome == "answered"
        and all((run.scores.get(metric.name) or 0.0) >= metric.threshold for metric in case.metrics)
        for run in newest
    )


def _entries(document: ConfigDocument) -> tuple[_Entry, ...]:
    try:
        return TypeAdapter(tuple[_Entry, ...]).validate_python(document.value or ())
    except ValidationError as error:
        raise InvalidInput(
            problems_of(
                error,
                file=document.path,
                position=document.position,
                known_keys=lambda location: _Entry.model_fields if location else (),
            )
        ) from None


def _misfits(
    document: ConfigDocument,
    entries: Sequence[_Entry],
    keys: Mapping[Key, tuple[EvalSet, str]],
    policies: Policies,
    *,
    is_part: bool,
) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        place = document.position((index, "case"))
        found = _matching(entry, keys)
        if not found and not is_part:
            yield Problem(document.path, *place, f"no case is called `{entry.case}`: remove the entry")
        protected = [key[1] for key in found if policies.get(key, CasePolicy()).protected]
        if protected:
            message = f"{listed(protected)} must never fail (`protected`), so it cannot be quarantined"
            yield Problem(document.path, *place, message)


def _matching(entry: _Entry, keys: Mapping[Key, tuple[EvalSet, str]]) -> list[Key]:
    return [
        key
        for key, (eval_set, eval_id) in keys.items()
        if any(
            fnmatchcase(name, entry.case) for name in names_of(eval_set.eval_set_id, eval_set.path, eval_id)
        )
    ]


def _expired(entry: _Entry) -> str:
    return (
        f"The quarantine of {entry.case} ended on {entry.expires}: it gates again. {entry.owner} mends it, "
        "or says until when."
    )


def _settled(
    file: QuarantineFile, entries: Sequence[_Entry], environ: Mapping[str, str]
) -> Sequence[_Entry] | None:
    """The entries that count here; None: git does not know the branch whose entries do."""
    if not git.unmerged(environ):
        return entries
    text = git.text_at_base(file.folder, file.path, environ)
    if text is None:
        return None
    try:
        return _entries(parse_yaml(text, file.path))
    except InvalidInput:
        return ()


def _uncounted(fresh: Sequence[str]) -> str:
    what = counted(len(fresh), "quarantine")
    return f"{what} of this change will count when it is merged: {', '.join(fresh)}."
