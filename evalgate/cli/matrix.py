"""The command `matrix`: run the same cases with variants of the agent, and compare them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalgate.cli.help_pages import SectionedCommand
from evalgate.cli.options import (
    add_case_filters,
    add_measure_options,
    build_overrides,
    in_project_directory,
    pop_case_filters,
    reports_folder,
)
from evalgate.cli.project_folder import FILE
from evalgate.cli.repro_options import suggest_resume
from evalgate.system.signals import InterruptHandler, ignore_end_signals

if TYPE_CHECKING:
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.publish import Publisher
    from evalgate.runner.variant_runs import MeasuredVariants
    from evalgate.runner.variants import Variant
    from evalgate.system.files import GuardedFolder


@click.command(cls=SectionedCommand)
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="NAME=A,B",
    help="Values of `env.NAME`, an environment variable of the agent, or of `agent.KEY`, a key of the "
    "section `agent`. Every combination is a variant; the first is the reference. Repeatable.",
)
@click.option(
    "--runs",
    "-n",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    metavar="N",
    help="Runs of each case with each variant.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Run the winner and the reference again: only fresh runs confirm a choice.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted matrix: only what is missing is run.")
@click.option("--yes", "-y", is_flag=True, help="Begin without asking; only a terminal asks.")
@add_measure_options
@add_case_filters
@reports_folder
@in_project_directory
@click.make_pass_decorator(InterruptHandler, ensure=True)
def matrix(
    interrupts: InterruptHandler,
    /,
    eval_sets: tuple[str, ...],
    vary: tuple[str, ...],
    confirm: bool,
    resume: bool,
    yes: bool,
    out: str,
    working_directory: str,
    **options: Any,
) -> int:
    """Compare variants of the agent on the same cases.

    EVAL_SETS are as for `run`. Prints a table and sentences with corrected statistics: it is a measurement,
    and no gate. Exit codes: 0 done, 2 the input is wrong, 3 not every run could be made, 130 interrupted.
    """
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.pipeline import prepare_redactor
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher
    from evalgate.runner.variants import build_variants, describe_expected_cost, parse_variations

    thresholds_file, selection_options = options.pop("thresholds"), pop_case_filters(options)
    overrides = build_overrides(eval_sets, options, selection_options)
    redactor = LiveRedactor.from_environment(os.environ, overrides.mask)
    with interrupts.handle_signals(), redactor.redact_errors():
        variations = parse_variations(vary)
        plan = build_plan(
            overrides, thresholds_file=thresholds_file, folder=Path(working_directory), environ=os.environ
        )
        variants = build_variants(plan, overrides.agent_name, variations)
        prepare_redactor(redactor, plan)
        _refuse_secrets(variants, redactor)
        publisher = Publisher(plan.workspace, out, os.environ, sys.stdout, sys.stderr, redactor)
        for sentence in describe_expected_cost(plan, len(variants)):
            publisher.print_notice(sentence)
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm("Go on?", default=True, abort=True, err=True)
        return _measure(interrupts, variants, publisher, confirm=confirm, resume=resume)


def _refuse_secrets(variants: "tuple[Variant, ...]", redactor: "LiveRedactor") -> None:
    """Raise InvalidInputError if a variant's value holds a secret, because reports show the values."""
    from evalgate.core.errors import InvalidInputError

    for variant in variants:
        for name, value in variant.values.items():
            if redactor.redact_text(value) != value:
                raise InvalidInputError(
                    f"--vary {name}: a value holds a secret, and values are shown in reports"
                )


def _measure(
    interrupts: InterruptHandler,
    variants: "tuple[Variant, ...]",
    publisher: "Publisher",
    *,
    confirm: bool,
    resume: bool,
) -> int:
    """Run the cases with each variant, write the reports and return the exit code.

    With `confirm`, the winning variant and the reference variant are run again.
    """
    from evalgate.reporting.matrix.files import remove_matrix
    from evalgate.reporting.report_files import check_writable
    from evalgate.runner.matrix_builder import build_matrix
    from evalgate.runner.pipeline import OpenCheckpoints, RunOptions
    from evalgate.runner.variant_runs import measure_variants

    workspace = publisher.workspace
    opened = check_writable(workspace.folder / publisher.out, workspace.owner, root=workspace.folder)

    def ignore_signals_and_clear_reports() -> None:
        interrupts.raise_lost_interrupt()
        interrupts.ignores_signals = True  # from here on there is a result
        remove_matrix(opened)

    def choose_winner(measured: "MeasuredVariants") -> "Variant | None":
        winner = build_matrix(measured).winner if confirm else ""
        return next((each for each in measured.variants if each.name == winner), None)

    progress = publisher.build_progress()
    with OpenCheckpoints() as checkpoints:
        options = RunOptions(None, opened.path, resume, publisher.redactor, checkpoints)
        try:
            measured, again = measure_variants(
                variants, progress, ignore_signals_and_clear_reports, choose_winner, options
            )
        finally:
            progress.close()
        code = _publish(measured, again, publisher, opened)
        checkpoints.mark_published()
    suggest_resume(publisher, opened.path / variants[0].folder)
    return code


def _publish(
    measured: "MeasuredVariants",
    again: "MeasuredVariants | None",
    publisher: "Publisher",
    opened: "GuardedFolder",
) -> int:
    """Write the reports into the folder `opened`, print the table and return the exit code.

    `again` has the runs that `--confirm` repeated, or is None.
    """
    from evalgate.core.exit_codes import ExitCode
    from evalgate.reporting.matrix.files import RENDERERS, write_matrix, write_variants
    from evalgate.reporting.matrix.text_reports import render_markdown, render_terminal
    from evalgate.runner.matrix_builder import build_matrix
    from evalgate.system.pull_requests import is_github_actions

    redactor, workspace = publisher.redactor, publisher.workspace
    parts = [part for part in (measured, again) if part is not None]
    folders = [variant.folder for part in parts for variant in part.variants]
    made = [record for part in parts for record in part.records]
    # Redacted together: a secret that one run announces with `::add-mask::` is hidden in all runs.
    found, records = redactor.redact_tree((build_matrix(measured, again), made))
    write_variants(list(zip(folders, records, strict=True)), opened, workspace)
    write_matrix(found, opened, workspace)
    publisher.print_notice(f"Reports in {workspace.format_path(opened.path)}: {', '.join(RENDERERS)}")
    click.echo(render_terminal(found), nl=False)
    if is_github_actions(os.environ):
        from evalgate.ci.github_actions import add_summary

        add_summary(render_markdown(found), environ=os.environ, stream=sys.stdout)
    ignore_end_signals()
    if measured.interrupted or (again is not None and again.interrupted):
        return ExitCode.INTERRUPTED
    is_partial = found.shortfall or (found.confirmation is not None and found.confirmation.shortfall)
    return ExitCode.NO_VERDICT if is_partial else ExitCode.OPEN
