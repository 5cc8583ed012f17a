"""What a command prints that quotes files: harmless to a terminal, to every CI log, and without secrets."""

import os
from collections.abc import Callable

import click

_LONGEST = 4000


def say(sentence: str, *, err: bool = False, hide: Callable[[str], str] | None = None) -> None:
    """Print a sentence on one line, whatever it quotes.

    `hide` takes secrets out; by default those of the environment.
    """
    from evalgate.hostile import log_line
    from evalgate.redaction import Redactor

    hidden = (hide or Redactor.of(os.environ).text)(sentence)
    click.echo(log_line(hidden, _LONGEST), err=err)


def say_all(text: str) -> None:
    """Print a report that is made for a log, without the secrets of the environment."""
    from evalgate.redaction import Redactor

    click.echo(Redactor.of(os.environ).text(text), nl=False)
