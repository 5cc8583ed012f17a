"""Options that several commands share."""

from collections.abc import Callable
from typing import TypeVar

import click

from evalgate.cli.parametertypes import BASELINE, FILE, FOLDER, FORMATS, FormatType
from evalgate.cli.project import works_in_project

_Command = TypeVar("_Command", bound=Callable[..., object])

DEFAULT_OUT = "evalgate-report"
DEFAULT_RESULTS = f"{DEFAULT_OUT}/results.json"


def not_empty(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The value, unless it is blank."""
    if value is not None and not value.strip():
        raise click.BadParameter("must not be empty", param=parameter)
    return value


working_directory = click.option(
    "--working-directory",
    "-C",
    default=".",
    show_default=True,
    type=FOLDER,
    metavar="DIR",
    help="Folder to work in; every other path is relative to it.",
)
"""For commands that read no thresholds file."""

_project_directory = click.option(
    "--working-directory",
    "-C",
    type=FOLDER,
    metavar="DIR",
    help="Folder to work in; every other path is relative to it. Without it, that of the thresholds file: "
    "here or above, within the repository.",
)


def project_directory(command: _Command) -> _Command:
    """Let a command work in the folder of the thresholds file, which may be above the user's."""
    return _project_directory(works_in_project(command))


thresholds_file = click.option("--thresholds", "-c", type=FILE, metavar="FILE", help="Thresholds file.")

baseline_file = click.option(
    "--to",
    type=BASELINE,
    metavar="FILE",
    callback=not_empty,
    help="Where it is kept.  [default: `gate.baseline`, else .evalgate/baseline.json]",
)

format_option = click.option(
    "--format",
    "format_name",
    type=FormatType(FORMATS),
    metavar="NAME",
    callback=not_empty,
    help="Format of the eval sets, whatever their content looks like: trpc, adk-rs, adk, adk-legacy or "
    "orchestrate.",
)

html_page = click.option(
    "--html", is_flag=True, help="Write report.html as well: a page with the whole conversation of each case."
)

reports_folder = click.option(
    "--out",
    default=DEFAULT_OUT,
    show_default=True,
    type=FOLDER,
    metavar="DIR",
    callback=not_empty,
    help="Folder for the reports.",
)
