"""`evalgate comment`: post a stored record from a workflow that the pull or merge request cannot change.

A job of a fork may have written the record, so evalgate does not trust it. It checks the record against the
schema and for contradictions, and sanitizes its text like an agent's. The author of the pull request controls
the job that wrote the record, so the results may still be made up. The comment warns its readers of this.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from evalgate.ci.posting import PostNotice, PostOptions, PostTimeouts
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record
from evalgate.datasets.results_io import load_record
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.posts import build_error_record, post_record
from evalgate.runner.result_loading import find_inconsistencies
from evalgate.system.workspace import resolve_workspace

LARGEST_RECORD = 64 * 1024 * 1024
"""Maximum size of a record in bytes. A larger record is not read."""

_NO_RECORD = "the run kept no record that can be posted. Its log says more."
"""Reason in the post that replaces an unusable record. No text of the record is quoted: it is not trusted."""


def post_stored_record(
    results: str,
    options: PostOptions,
    on_notice: Callable[[PostNotice], None],
    *,
    folder: Path,
    environ: Mapping[str, str],
    timeouts: PostTimeouts | None = None,
) -> None:
    """Read and check a stored record, and post it as `options` ask. Pass each notice to `on_notice`.

    If the record cannot be used, post that there is no verdict, and then raise an error. Without this post,
    an earlier comment might still call the gate open. If a relative path leads out of `folder`, post nothing.

    Raises:
        InvalidInputError: a relative path leads out of `folder`; or the file cannot be read, is a link, is
            too large, is no record, or contradicts itself.
    """
    workspace = resolve_workspace(folder).folder
    if not Path(results).is_absolute() and not (workspace / results).parent.resolve().is_relative_to(
        workspace
    ):
        raise InvalidInputError(f"{results}: is outside of the working folder, so it is not posted")
    redactor = LiveRedactor.from_environment(environ)

    def post(record: Record, comment: CommentReport) -> None:
        post_record(record, options, comment, on_notice, environ=environ, timeouts=timeouts)

    try:
        record = _read_record(workspace / results, results)
    except InvalidInputError:
        post(build_error_record(InvalidInputError(_NO_RECORD)), CommentReport())
        raise
    redactor.protect_notices(record.notices)
    post(redactor.redact_tree(record), CommentReport(is_trusted=False))


def _open_without_following(path: str, flags: int) -> int:
    # An artifact may hold a link to any file, or a named pipe, at which `open` would wait.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read_record(path: Path, name: str) -> Record:
    try:
        with open(path, "rb", opener=_open_without_following) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInputError(f"{name}: is not a regular file, so it is not posted")
            data = file.read(LARGEST_RECORD + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidInputError(f"{name}: is a link, so it is not posted") from None
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_RECORD:
        raise InvalidInputError(f"{name}: larger than {LARGEST_RECORD:,} bytes, so it is not posted")
    record = load_record(data, name)
    if wrong := list(find_inconsistencies(record)):
        raise InvalidInputError(f"{name}: {'; '.join(wrong)}: this record is not posted")
    return record
