"""Commands `evalgate baseline …`: their options and arguments."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from evalgate.cli.help_pages import FullLineGroup
from evalgate.cli.options import (
    DEFAULT_RESULTS,
    baseline_file,
    in_project_directory,
    require_nonempty,
    thresholds_file,
)
from evalgate.cli.project_folder import FILE
from evalgate.cli.redacted_output import print_json, print_report, print_sentence

_Command = TypeVar("_Command", bound=Callable[..., object])


@click.group(cls=FullLineGroup)
def baseline() -> None:
    """Manage the baseline that later runs are compared with."""


def _add_save_options(command: _Command) -> _Command:
    """Add to a command the options that `save` and `accept` share."""
    for option in (
        in_project_directory,
        thresholds_file,
        baseline_file,
        click.option(
            "--commit",
            metavar="SHA",
            callback=require_nonempty,
            help="Commit that was evaluated.  [default: the one that is checked out]",
        ),
        click.option(
            "--allow-pull-request",
            is_flag=True,
            help="Save runs of a change that is not merged yet.",
        ),
        click.argument("results", type=FILE, default=DEFAULT_RESULTS),
    ):
        command = option(command)
    return command


@baseline.command("save")
@_add_save_options
@click.option(
    "--allow-failing",
    is_flag=True,
    help="Save a run that closed the gate: for jobs of the default branch, where it is already merged.",
)
def save(
    results: str,
    commit: str | None,
    allow_pull_request: bool,
    allow_failing: bool,
    to: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Add the raw scores of a results.json to the baseline.

    Of each eval set the newest 20 gate runs are kept. Save in a job of the default branch, after the merge.
    """
    from evalgate.cli.baseline_save import BaselineSaveOptions, save_baseline
    from evalgate.runner.baseline_targets import resolve_target

    destination = resolve_target(Path(working_directory), to, thresholds)
    save_options = BaselineSaveOptions(os.environ, commit, allow_pull_request, allow_failing)
    print_sentence(save_baseline(results, destination, save_options))
    return 0


@baseline.command("accept")
@_add_save_options
@click.option(
    "--reason",
    required=True,
    envvar="EVALGATE_REASON",
    show_envvar=True,
    metavar="TEXT",
    callback=require_nonempty,
    help="Reason for the change; reports show it.",
)
def accept(
    results: str,
    reason: str,
    commit: str | None,
    allow_pull_request: bool,
    to: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Replace the baseline after an intended change.

    The baseline then holds only the raw scores of the results.json.
    """
    from evalgate.cli.baseline_save import BaselineSaveOptions, accept_baseline
    from evalgate.runner.baseline_targets import resolve_target

    destination = resolve_target(Path(working_directory), to, thresholds)
    print_sentence(
        accept_baseline(
            results, reason, destination, BaselineSaveOptions(os.environ, commit, allow_pull_request)
        )
    )
    return 0


@baseline.command("prune")
@click.option(
    "--keep", required=True, type=click.IntRange(1), metavar="N", help="Gate runs to keep of each eval set."
)
@baseline_file
@thresholds_file
@in_project_directory
def prune(keep: int, to: str | None, thresholds: str | None, working_directory: str) -> int:
    """Keep only the newest gate runs of each eval set."""
    from evalgate.cli.baseline_save import prune_baseline
    from evalgate.runner.baseline_targets import resolve_target

    print_sentence(prune_baseline(keep, resolve_target(Path(working_directory), to, thresholds)))
    return 0


@baseline.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@baseline_file
@thresholds_file
@in_project_directory
def show(as_json: bool, to: str | None, thresholds: str | None, working_directory: str) -> int:
    """Show the baseline and the smallest drop it can detect."""
    from evalgate.cli.baseline_show import format_baseline_summary, summarize_baseline
    from evalgate.runner.baseline_targets import resolve_target

    found = summarize_baseline(resolve_target(Path(working_directory), to, thresholds), thresholds)
    print_report(found.as_json() if as_json else format_baseline_summary(found), is_json=as_json)
    return 0


@baseline.command("export")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="Format of the rows.",
)
@baseline_file
@thresholds_file
@in_project_directory
def export(format_name: str, to: str | None, thresholds: str | None, working_directory: str) -> int:
    """Print every raw score with its origin."""
    from evalgate.cli.baseline_show import export_baseline
    from evalgate.runner.baseline_targets import resolve_target

    destination = resolve_target(Path(working_directory), to, thresholds)
    text = export_baseline(destination.read(), format_name)
    if format_name == "json":
        print_json(text)
    else:
        click.echo(text, nl=False)
    return 0
