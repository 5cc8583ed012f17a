"""Print the error with which a command ended, and post it to the pull request."""

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.exit_codes import OUT_OF_MEMORY, ExitCode, is_out_of_memory
from evalgate.system.workspace import has_working_folder

if TYPE_CHECKING:
    from evalgate.ci.posting import PostOptions
    from evalgate.redaction.live_redactor import LiveRedactor

_REFUSED_PATHS = {
    errno.EACCES: "correct the permissions of this path and the folders above it, or name another",
    errno.EISDIR: "remove this folder, or name another path",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.ENOTDIR: "a part of this path is a file: name another path",
    errno.EROFS: "name a path on a file system that can be written",
}
"""Advice for the user by `errno`, for errors of the operating system that the named path causes."""


class PrintedError(Exception):
    """Error that `print_error` has printed already, with the exit code of the command."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def print_error(error: BaseException) -> int:
    """Print an error on stderr and return the exit code for it. A `PrintedError` is not printed again."""
    if isinstance(error, PrintedError):
        return error.exit_code
    if is_out_of_memory(error):
        os.write(2, OUT_OF_MEMORY)
        return ExitCode.NO_VERDICT
    code, text = _explain_error(error)
    if isinstance(error, click.ClickException):
        error.show()
    else:
        _print_message(text)
    return code


def print_and_post_error(error: Exception, posting: "PostOptions", redactor: "LiveRedactor") -> PrintedError:
    """Print an error, post it to the pull request, and return the exception to raise in its place.

    Posting may take minutes. Errors of the post are ignored. `redactor` removes secrets from the post.
    """
    from evalgate.runner.posts import post_error

    shown = InvalidInputError(error.format_message()) if isinstance(error, click.ClickException) else error
    try:
        return PrintedError(print_error(error))
    finally:
        with suppress(Exception):
            post_error(shown, posting, redactor, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)


def _explain_error(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message of an error."""
    if isinstance(error, click.ClickException):
        return ExitCode.INVALID_INPUT, error.format_message()
    if isinstance(error, EvalgateError):
        text = str(error)
        located = isinstance(error, InvalidInputError) and bool(error.problems and error.problems[0].file)
        return error.exit_code, text if located or "\n" in text else f"evalgate: {text}"
    if isinstance(error, OSError) and not has_working_folder():
        return (
            ExitCode.INVALID_INPUT,
            "evalgate: the folder that this command works in was deleted: change into an existing folder",
        )
    if isinstance(error, OSError) and error.filename and error.errno in _REFUSED_PATHS:
        path = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else error.filename
        return (
            ExitCode.INVALID_INPUT,
            f"evalgate: {path}: {error.strerror}: {_REFUSED_PATHS[error.errno]}",
        )
    import traceback

    return ExitCode.BUG, (
        f"{''.join(traceback.format_exception(error))}\n"
        "evalgate: this is a bug in evalgate, not a verdict about your agent. "
        "Please report it with the lines above."
    )


def _print_message(text: str) -> None:
    # The text may quote files and the output of the setup command, so secrets in it are hidden.
    from evalgate.core.sanitize import disable_commands, strip_invisible
    from evalgate.redaction.redactor import Redactor

    redacted = Redactor.from_environment(os.environ).redact_text(strip_invisible(text))
    print(disable_commands(redacted), file=sys.stderr, flush=True)  # noqa: T201
