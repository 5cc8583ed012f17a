"""Command `evalgate review`: its options and arguments. The work is done in `review_cases`."""

import os
from pathlib import Path

import click

from evalgate.cli.options import in_project_directory
from evalgate.cli.project_folder import FILE


def _print_line(line: str) -> None:
    """Print a line and keep its indentation. Hide secrets, and disable commands to a CI runner."""
    from evalgate.core.sanitize import to_log_line
    from evalgate.redaction.redactor import Redactor

    text = line.lstrip(" ")
    hidden = Redactor.from_environment(os.environ).redact_text(text)
    click.echo(" " * (len(line) - len(text)) + to_log_line(hidden))


@click.command()
@click.argument("eval_set", type=FILE, metavar="FILE")
@click.option("--accept", multiple=True, metavar="ID", help="Make a case expected: it gates. Repeatable.")
@click.option("--drop", multiple=True, metavar="ID", help="Remove a case. Repeatable.")
@click.option("--all", "accept_all", is_flag=True, help="Make all other observed cases expected.")
@in_project_directory
def review(
    eval_set: str, accept: tuple[str, ...], drop: tuple[str, ...], accept_all: bool, working_directory: str
) -> int:
    """Decide about observed cases: expected, corrected or dropped.

    Asks for each case in a terminal. Elsewhere, and without an option, it lists the observed cases, and the
    exit code is 1 if there are any.
    """
    from evalgate.cli.review_cases import review_cases

    return review_cases(
        eval_set,
        Path(working_directory),
        accept=accept,
        drop=drop,
        accept_all=accept_all,
        write=_print_line,
    )
