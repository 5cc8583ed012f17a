"""`evalgate comment`: post a stored record from a workflow that the pull or merge request cannot change.

The record may come from a job of a fork: nothing in it is trusted. It is checked against the schema and for
contradictions, and its text is neutralised as every agent's is. What it says can be false all the same,
for whoever opens a pull request decides what its own job reports: the comment says so.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalgate.ci.post_result import Patience
from evalgate.core.errors import InvalidInput
from evalgate.core.types import Record
from evalgate.datasets.results_io import load_record
from evalgate.gating.verdict import contradictions
from evalgate.redaction.live_redactor import Hiding
from evalgate.redaction.redactor import Redactor
from evalgate.reporting.comment.reporter import Comment
from evalgate.reporting.reviews import Posting, Told, tell_reviewers
from evalgate.runner.plan import workspace_at

LARGEST_RECORD = 64 * 1024 * 1024
"""Bytes; a larger one is not read."""


def post_record(
    results: str,
    posting: Posting,
    *,
    folder: Path,
    environ: Mapping[str, str],
    patience: Patience | None = None,
) -> Iterator[Told]:
    """Post what `posting` asks for; gives what became of it.

    Raises:
        InvalidInput: the record is none, too large, or contradicts itself.
    """
    workspace = workspace_at(folder).folder
    if not Path(results).is_absolute() and not (workspace / results).parent.resolve().is_relative_to(
        workspace
    ):
        raise InvalidInput(f"{results}: lies outside of the folder that is worked in, so it is not posted")
    record = _read(workspace / results, results)
    hiding = Hiding(Redactor.of(environ))
    record = hiding.tree(record)

    def render(limit: int) -> str:
        return hiding.text(Comment(limit=limit, is_trusted=False).render(record))

    return tell_reviewers(record, posting, render, environ=environ, patience=patience)


def _no_link(path: str, flags: int) -> int:
    # an artifact may hold a link to anything, or a pipe that would be waited for
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read(path: Path, shown_as: str) -> Record:
    try:
        with open(path, "rb", opener=_no_link) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInput(f"{shown_as}: is no ordinary file, so it is not posted")
            data = file.read(LARGEST_RECORD + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidInput(f"{shown_as}: is a link, so it is not posted") from None
        raise InvalidInput(f"{shown_as}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_RECORD:
        raise InvalidInput(f"{shown_as}: larger than {LARGEST_RECORD:,} bytes, so it is not posted")
    record = load_record(data, shown_as)
    if wrong := list(contradictions(record)):
        raise InvalidInput(f"{shown_as}: {'; '.join(wrong)}: this record is not posted")
    return record
