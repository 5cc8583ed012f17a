"""Command `evalgate accept`: its options and arguments. The work is done in `accept_cases`."""

from pathlib import Path
from typing import Any

import click

from evalgate.cli.options import DEFAULT_RESULTS, in_project_directory, require_nonempty, thresholds_file
from evalgate.cli.project_folder import FILE


@click.command()
@click.argument("cases", nargs=-1, required=True, metavar="CASES...")
@click.option(
    "--reason",
    required=True,
    callback=require_nonempty,
    metavar="TEXT",
    help="Reason why the new behaviour is right; it is kept in the case notes.",
)
@click.option(
    "--from",
    "results",
    type=FILE,
    default=DEFAULT_RESULTS,
    show_default=True,
    metavar="FILE",
    help="Results to take the behaviour from.",
)
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="Accept this turn only, from 1.")
@click.option(
    "--only", type=click.Choice(["tools", "response"]), help="Accept the tool calls or the responses only."
)
@click.option(
    "--alternative",
    is_flag=True,
    help="Keep the old expectation, too, and add the new one to the case notes: the case passes with either.",
)
@click.option("--run", type=click.IntRange(min=1), metavar="N", help="Run to accept if the runs disagree.")
@click.option("--protected", is_flag=True, help="Also accept cases that are `protected`.")
@click.option("--yes", "-y", is_flag=True, help="Save without asking.")
@click.option("--dry-run", is_flag=True, help="Print the changes and save nothing.")
@thresholds_file
@in_project_directory
def accept(working_directory: str, **options: Any) -> int:
    """Make what the agent did the new expectation of cases.

    CASES are ids, `eval set:id`, `file:id` or globs; a glob selects only failed cases. The eval sets are
    edited in their files, which stay the same otherwise. Prints the changes, and asks before it saves them.
    """
    from evalgate.cli.accept_cases import AcceptOptions, accept_cases

    return accept_cases(AcceptOptions(**options), Path(working_directory))
