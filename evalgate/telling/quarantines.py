"""The cases that do not gate, as every report tells of them."""

from collections.abc import Iterator

from evalgate.frozen import frozen
from evalgate.model import CaseResult, Record
from evalgate.telling.findings import passed_runs
from evalgate.telling.headline import STATUSES


@frozen
class Resting:
    """A case in quarantine; all but its status was written by whoever wrote the files."""

    name: str
    status: str
    """`failed (2 of 3 runs passed)`."""
    until: str
    """`until 2026-12-31, anna: the search index moves`."""


def resting(record: Record) -> Iterator[Resting]:
    """The quarantined cases, in file order."""
    for case in record.cases:
        if case.quarantine is not None:
            yield Resting(f"{case.eval_set_id}/{case.eval_id}", _status(case), until(case))


def _status(case: CaseResult) -> str:
    """`failed`, and how often where its runs disagree."""
    passed, runs = passed_runs(case)
    how_often = f" ({passed} of {runs} runs passed)" if 0 < passed < runs else ""
    return f"{STATUSES[case.status]}{how_often}"


def until(case: CaseResult) -> str:
    """Why the case rests; "" when it does not."""
    about = case.quarantine
    return f"until {about.expires}, {about.owner}: {about.reason}" if about else ""
