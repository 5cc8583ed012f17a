"""The command `run`, and its options that select cases."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.help_pages import SectionedCommand
from evalgate.cli.options import (
    add_case_filters,
    add_plan_options,
    build_overrides,
    in_project_directory,
    pop_case_filters,
    reports_folder,
    require_nonempty,
)
from evalgate.cli.project_folder import FILE
from evalgate.cli.publish_options import (
    add_destination_options,
    add_posting_options,
    detailed_results,
    html_page,
    kept_results,
    list_masks,
    owner_reports,
    pop_post_options,
    pop_publish_options,
    post_on_failure,
)
from evalgate.cli.repro_options import build_repro_options, choose_out, suggest_resume
from evalgate.system.signals import InterruptHandler, ignore_end_signals

if TYPE_CHECKING:
    from evalgate.config.cli_overrides import SelectionOptions
    from evalgate.core.types import Record
    from evalgate.runner.pipeline import OpenCheckpoints, RunOptions
    from evalgate.runner.plan import Plan
    from evalgate.runner.publish import Publisher


_Command = TypeVar("_Command", bound=Callable[..., object])


# --- the options that select cases --------------------------------------------------------------------------


_SELECTION_OPTIONS = (
    click.option(
        "--failed", is_flag=True, help="Run the cases that did not pass in the last results of --out."
    ),
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run N cases, drawn from each eval set and combination of tags. Such a run has no verdict.",
    ),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the sample.  [default: 0]"),
    click.option(
        "--affected",
        is_flag=True,
        help="Run only the suites that the change affects; with none the verdict is `skipped`.",
    ),
    click.option(
        "--base",
        metavar="REF",
        callback=require_nonempty,
        help="Commit that --affected compares with, such as origin/main.  [default: target branch of the "
        "pull request]",
    ),
    click.option(
        "--watch",
        is_flag=True,
        help="Run again whenever a file changes: the edited cases of an eval set, or after other changes the "
        "cases that failed, else all.",
    ),
)


def add_selection_options(command: _Command) -> _Command:
    """Add all options that select cases to a command."""
    for option in reversed(_SELECTION_OPTIONS):
        command = option(command)
    return add_case_filters(command)


def pop_selection_options(
    options: dict[str, Any], out: str, *, is_shard: bool, is_resumed: bool
) -> "SelectionOptions":
    """Return the values of the case-selecting options, and remove these options from `options`.

    `out` is the folder of the reports. `--failed` looks there for the last results.

    Raises:
        UsageError: options contradict each other, or cannot be combined with `--shard` (`is_shard`) or
            `--resume` (`is_resumed`).
    """
    from dataclasses import replace

    failed, sample, seed = options.pop("failed"), options.pop("sample"), options.pop("seed")
    affected, base = options.pop("affected"), options.pop("base")
    if failed and is_resumed:
        raise click.UsageError("--failed cannot resume: --failed alone runs what did not pass yet.")
    if is_shard and (failed or sample is not None or affected):
        name = "--failed" if failed else "--affected" if affected else "--sample"
        raise click.UsageError(f"{name} cannot be combined with --shard.")
    if base is not None and not affected:
        raise click.UsageError("--base needs --affected.")
    if seed is not None and sample is None:
        raise click.UsageError("--seed needs --sample.")
    return replace(
        pop_case_filters(options),
        failed=f"{out}/results.json" if failed else None,
        sample=sample,
        seed=seed or 0,
        affected=(base or "") if affected else None,
    )


# --- the command --------------------------------------------------------------------------------------------


def _parse_shard(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    index, _, count = value.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= 10_000:
        return int(index), int(count)
    raise click.BadParameter(f"{value!r} must be I/N, as 3/8", param=parameter)


@click.command(cls=SectionedCommand)
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@add_plan_options
@add_selection_options
@click.option("--resume", is_flag=True, help="Continue an interrupted run: only what is missing is run.")
@click.option(
    "--shard",
    metavar="I/N",
    callback=_parse_shard,
    help="Run part I of N; `evalgate merge` combines the parts.",
)
@add_posting_options
@add_destination_options
@html_page
@detailed_results
@kept_results
@owner_reports
@reports_folder
@in_project_directory
@click.make_pass_decorator(InterruptHandler, ensure=True)
def run(interrupts: InterruptHandler, /, watch: bool, **options: Any) -> int:
    """Run the eval sets against the agent and print a verdict.

    EVAL_SETS are files, folders or globs; `file.evalset.json:case_a,case_b` selects cases. If there is
    none, the thresholds file names them.
    """
    if watch:
        from evalgate.cli.watch import watch_run

        return watch_run(click.get_current_context(), options)
    return _run_once(interrupts, **options)


def _run_once(
    interrupts: InterruptHandler,
    eval_sets: tuple[str, ...],
    resume: bool,
    shard: tuple[int, int] | None,
    out: str,
    working_directory: str,
    thresholds: str | None,
    mask: tuple[str, ...],
    agent: str | None,
    **options: Any,
) -> int:
    """Run the cases once, publish the record and return the exit code."""
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.pipeline import OpenCheckpoints, RunOptions
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher

    # Every `pop` removes options that are no fields of `Overrides`, which gets the rest of `options`.
    post_options = pop_post_options(options)
    folder, redactor = Path(working_directory), LiveRedactor.from_environment(os.environ)
    with (
        # `evalgate.__main__` has installed the handler already, unless another program calls the command.
        interrupts.handle_signals(),
        post_on_failure(post_options, redactor),
        OpenCheckpoints() as checkpoints,
    ):
        redactor.learn_masks(mask)  # before anything that may fail
        publish_options = pop_publish_options(options, post_options)
        out = choose_out(click.get_current_context(), folder, out, agent)
        selection_options = pop_selection_options(options, out, is_shard=shard is not None, is_resumed=resume)
        overrides = build_overrides(eval_sets, {**options, "mask": mask, "agent": agent}, selection_options)
        redactor.learn_masks(list_masks(overrides, publish_options.destinations))
        plan = build_plan(overrides, thresholds_file=thresholds, folder=folder, environ=os.environ)
        _refuse_overwriting_recordings(plan, plan.workspace.folder / out)
        streams = (sys.stdout, sys.stderr)
        publisher = Publisher(plan.workspace, out, os.environ, *streams, redactor, publish_options)
        run_options = RunOptions(shard, plan.workspace.folder / out, resume, redactor, checkpoints)
        # Built before the run, because the agent may remove the folders in these options.
        repro_options = build_repro_options(working_directory, thresholds, out, overrides, os.environ)
        record = _run_with_progress(plan, publisher, interrupts, run_options, repro_options)
        code = _publish_record(publisher, record, checkpoints)
    if selection_options.failed is None:  # `--failed` alone runs what is left
        suggest_resume(publisher, plan.workspace.folder / out)
    return code


def _refuse_overwriting_recordings(plan: "Plan", reports: Path) -> None:
    """Raise InvalidInputError if the run would overwrite a recording from which it answers tool calls.

    `reports` is the folder in which the run writes `results.json`.
    """
    if plan.recordings:
        from evalgate.runner.tool_mocks import refuse_overwriting

        refuse_overwriting(plan.recordings, reports / "results.json")


def _run_with_progress(
    plan: "Plan",
    publisher: "Publisher",
    interrupts: InterruptHandler,
    run_options: "RunOptions",
    repro_options: tuple[str, ...],
) -> "Record":
    """Run the plan with a progress display, and return the record.

    Shortly before the agent's first turn, the reports of the previous run are removed. `repro_options` become
    the record's `options`: the options with which a user can run one of its cases again.
    """
    from dataclasses import replace

    from evalgate.runner.execution import RunHooks
    from evalgate.runner.pipeline import run_gate

    def check_signals_and_preload() -> None:
        interrupts.raise_lost_interrupt()  # before the journal and the reports of an earlier run are replaced
        publisher.preload_reporting()

    def ignore_signals_and_clear_reports() -> None:
        interrupts.raise_lost_interrupt()
        # From here on there is a record in any case; `cancel_on_signals` handles signals during the run.
        interrupts.ignores_signals = True
        # Not at the start: a run that fails before this leaves the reports of the last one as they are.
        publisher.clear_previous_reports()

    hooks = RunHooks(
        on_usage_notice=publisher.print_notice,
        while_starting=check_signals_and_preload,
        on_begin=ignore_signals_and_clear_reports,
    )
    progress = publisher.build_progress()
    try:
        record = run_gate(plan, progress, run_options, hooks)
        return replace(record, options=repro_options)
    finally:
        progress.close()


def _publish_record(publisher: "Publisher", record: "Record", checkpoints: "OpenCheckpoints") -> int:
    """Write the reports of the record, print and post the result, and return the exit code.

    If `results.json` could not be written, the journal is kept, so that `--resume` can use it.
    """
    code = publisher.publish(record)
    ignore_end_signals()  # the reports state the exit code, and a signal would change it
    if publisher.has_record:
        checkpoints.mark_published()
    return code
