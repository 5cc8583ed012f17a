"""Command `evalgate affected`: the suites that a change concerns, and the reasons."""

import json
import os
import sys
from pathlib import Path

import click

from evalgate.cli.options import in_project_directory, require_nonempty, thresholds_file
from evalgate.cli.project_folder import AGENT, FILE
from evalgate.cli.redacted_output import print_report, print_sentence


@click.command()
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@click.option(
    "--base",
    metavar="REF",
    callback=require_nonempty,
    help="Commit to compare with, such as origin/main.  [default: target branch of the pull request]",
)
@click.option(
    "--explain",
    "explained",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Print which suites a change of this file concerns, and why. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print suites, files and reasons as JSON.")
@click.option(
    "--matrix",
    is_flag=True,
    help="Print a matrix of the affected suites for GitHub's `fromJSON`. In a job it is the step's output "
    "`matrix`, too.",
)
@click.option(
    "--agent", type=AGENT, metavar="KIND:WHAT", help="Agent that runs, if the thresholds file names none."
)
@thresholds_file
@in_project_directory
def affected(
    eval_sets: tuple[str, ...],
    base: str | None,
    explained: tuple[str, ...],
    as_json: bool,
    matrix: bool,
    agent: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Print which suites a change concerns, and why. Runs nothing.

    A suite is a name under `suites` in the thresholds file, or an eval set of no suite. Compares the files
    here with the commit that they have in common with REF. If the changed files cannot be
    determined, every suite is concerned.
    """
    from evalgate.config.cli_overrides import Overrides, SelectionOptions
    from evalgate.gating.affected_suites import build_job_matrix, build_json, explain_file, format_report
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.plan import build_plan

    if as_json and matrix:
        raise click.UsageError("--json cannot be combined with --matrix.")
    if explained and (as_json or matrix):
        raise click.UsageError("--explain prints text: leave out --json and --matrix.")
    selection_options = SelectionOptions(affected=base or "")
    overrides = Overrides(eval_sets=eval_sets, agent=agent, selection_options=selection_options)
    with LiveRedactor.from_environment(os.environ).redact_errors():
        folder = Path(working_directory)
        found = build_plan(overrides, thresholds_file=thresholds, folder=folder, environ=os.environ).affected
    if found is None:
        raise AssertionError("the plan was made with a selection by suites")
    if explained:
        # An absolute path may name a file of the folder, too.
        names = (Path(os.path.relpath(folder / path, folder)).as_posix() for path in explained)
        effects = [explain_file(found.rules, name) for name in names]
        for each in effects:
            print_sentence(f"{each.sentence} Concerned: {', '.join(each.suites) or 'no suite'}.")
    elif matrix:
        _print_matrix(json.dumps(build_job_matrix(found)))
    elif as_json:
        print_report(f"{json.dumps(build_json(found), indent=2)}\n", is_json=True)
    else:
        print_report(format_report(found))
    return 0


def _print_matrix(text: str) -> None:
    """Print the matrix of suites as JSON; in GitHub Actions, also set the step's output `matrix`."""
    from evalgate.system.pull_requests import is_github_actions

    print_report(f"{text}\n", is_json=True)
    if is_github_actions(os.environ):
        from evalgate.ci.github_actions import set_outputs

        set_outputs({"matrix": text}, environ=os.environ, stream=sys.stdout)
