"""Print text that may quote files: secrets are hidden, and no text can control the terminal or CI runner."""

import os
from collections.abc import Callable

import click

_LONGEST = 4000


def print_sentence(sentence: str, *, err: bool = False, hide: Callable[[str], str] | None = None) -> None:
    """Print a sentence on one line of at most 4000 characters, with commands to a CI runner disabled.

    `hide` removes secrets. If `hide` is None, the secrets of the environment are removed.
    """
    # Imported here, because `--help` and shell completion load this module and do not call this function.
    from evalgate.core.sanitize import to_log_line
    from evalgate.redaction.redactor import Redactor

    hidden = (hide or Redactor.from_environment(os.environ).redact_text)(sentence)
    click.echo(to_log_line(hidden, _LONGEST), err=err)


def print_report(text: str, *, is_json: bool = False) -> None:
    """Print a report with the secrets of the environment hidden.

    If `is_json` is True, the text is JSON, and is escaped so that a CI runner sees no command in it. Any
    other text must be safe already.
    """
    from evalgate.redaction.redactor import Redactor

    hidden = Redactor.from_environment(os.environ).redact_text(text)
    if is_json:
        print_json(hidden)
    else:
        click.echo(hidden, nl=False)


def print_json(text: str) -> None:
    """Print JSON, escaped so that a CI runner sees no command in it. Secrets are not hidden."""
    from evalgate.core.sanitize import to_log_json

    click.echo(to_log_json(text), nl=False)
