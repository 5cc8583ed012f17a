"""The command line: converts options to calls, and returns exit codes.

Only `evalgate.cli` imports click. Nothing heavy is imported before a command runs, so that `evalgate --help`
is instant.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalgate import __version__
from evalgate.cli.baseline_commands import baseline
from evalgate.cli.commands import COMMANDS as STORED_RUNS
from evalgate.cli.commands import generate, init, merge
from evalgate.cli.options import (
    DEFAULT_RESULTS,
    FILE,
    WRITABLE_FORMATS,
    FormatParamType,
    FullLineGroup,
    SectionedCommand,
    format_option,
    html_page,
    project_directory,
    reports_folder,
    require_nonempty,
    thresholds_file,
    working_directory,
)
from evalgate.cli.output import print_json, print_sentence
from evalgate.cli.run_options import (
    add_plan_options,
    add_posting_options,
    build_overrides,
    build_redactor,
    build_repro_options,
    build_resume_command,
    choose_out,
    comment,
    pop_post_options,
    post_on_failure,
)
from evalgate.system.signals import InterruptHandler, ignore_end_signals

if TYPE_CHECKING:
    from evalgate.core.types import Record
    from evalgate.runner.pipeline import RunOptions
    from evalgate.runner.plan import Plan
    from evalgate.runner.publish import Publisher


@click.group(
    cls=FullLineGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="evalgate")
def cli() -> None:
    """Gate changes to LLM agents: did this change make the agent worse?

    Exit codes: 0 gate open, 1 gate closed, 2 the input is wrong, 3 no trustworthy verdict, 4 inconclusive,
    70 a bug in evalgate, 130 interrupted.
    """


def _parse_shard(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    index, _, count = value.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= 10_000:
        return int(index), int(count)
    raise click.BadParameter(f"{value!r} must be I/N, as 3/8", param=parameter)


@cli.command(cls=SectionedCommand)
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@add_plan_options
@click.option("--resume", is_flag=True, help="Continue an interrupted run: only what is missing is run.")
@click.option(
    "--shard",
    metavar="I/N",
    callback=_parse_shard,
    help="Run part I of N; `evalgate merge` combines the parts.",
)
@add_posting_options
@html_page
@reports_folder
@project_directory
@click.make_pass_decorator(InterruptHandler, ensure=True)
def run(
    interrupts: InterruptHandler,
    /,
    eval_sets: tuple[str, ...],
    resume: bool,
    shard: tuple[int, int] | None,
    html: bool,
    out: str,
    working_directory: str,
    **options: Any,
) -> int:
    """Run the eval sets against the agent and print a verdict.

    EVAL_SETS are files, folders or globs; `file.evalset.json:case_a,case_b` selects cases. If there is
    none, the thresholds file names them.
    """
    from evalgate.runner.pipeline import RunOptions
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher

    thresholds, folder = options.pop("thresholds"), Path(working_directory)
    posting = pop_post_options(options)
    overrides = build_overrides(eval_sets, options)
    out = choose_out(click.get_current_context(), folder, out, overrides.agent)
    redactor = build_redactor(overrides.mask)
    with (
        interrupts.handle_signals(),
        post_on_failure(posting, redactor),
        redactor.redact_errors(),
        ExitStack() as published,
    ):
        plan = build_plan(overrides, thresholds=thresholds, folder=folder, environ=os.environ)
        publisher = Publisher(
            plan.workspace, out, os.environ, sys.stdout, sys.stderr, redactor, posting, html
        )
        run_options = RunOptions(shard, plan.workspace.folder / out, resume, redactor, published)
        # before the run, which may remove the folder that this looks at
        repro_options = build_repro_options(working_directory, thresholds, out, overrides, os.environ)
        record = _run_with_progress(plan, publisher, interrupts, run_options, repro_options)
        code = publisher.publish(record)
        ignore_end_signals()
        if not publisher.has_record:
            published.pop_all()  # the journal stays, as nothing else holds the runs
    _suggest_resume(publisher, plan.workspace.folder / out)
    return code


def _suggest_resume(publisher: "Publisher", reports: Path) -> None:
    """Print how to continue the run if it left a journal behind."""
    from evalgate.runner.checkpoint.journal import FILE_NAME

    if (reports / FILE_NAME).is_file() and (again := build_resume_command(sys.argv[1:])):
        publisher.print_notice(f"Go on where this run ended: {again}")


def _run_with_progress(
    plan: "Plan",
    publisher: "Publisher",
    interrupts: InterruptHandler,
    options: "RunOptions",
    repro_options: tuple[str, ...],
) -> "Record":
    """Run the plan with a progress display; return the record with `repro_options`."""
    from dataclasses import replace

    from evalgate.runner.pipeline import run_gate

    def begin_publishing() -> None:
        interrupts.is_certain = True  # whatever happens from here on, there is a record
        publisher.clear_previous_reports()

    progress = publisher.build_progress()
    try:
        record = run_gate(
            plan, progress, begin_publishing, options, publisher.print_notice, publisher.preload_reporting
        )
        return replace(record, options=repro_options)
    finally:
        progress.close()


@cli.command()
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@thresholds_file
@format_option
@project_directory
def validate(
    eval_sets: tuple[str, ...], thresholds: str | None, format_name: str | None, working_directory: str
) -> int:
    """Check eval sets and thresholds without running anything.

    Prints every problem as file:line:column and ends with exit code 2 if there is one.
    """
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.redactor import Redactor
    from evalgate.runner.plan import check_files

    overrides = Overrides(eval_sets=eval_sets, format=format_name)
    redactor = Redactor.from_environment(os.environ)
    for line in check_files(overrides, thresholds=thresholds, folder=Path(working_directory)):
        print_sentence(line, hide=redactor.redact_text)
    return 0


@cli.command()
@click.argument("eval_set", type=FILE, metavar="FILE")
@click.option(
    "--to",
    required=True,
    type=FormatParamType(WRITABLE_FORMATS),
    metavar="FORMAT",
    help="Format to write: adk, adk-rs, trpc or orchestrate.",
)
@click.option("--out", "-o", type=FILE, metavar="OUT", help="File to write.  [default: standard output]")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option(
    "--initial-session",
    type=FILE,
    metavar="SESSION",
    callback=require_nonempty,
    help="Session that an old list of turns starts with: Google ADK's initial_session_file.",
)
@format_option
@working_directory
def convert(
    eval_set: str,
    to: str,
    out: str | None,
    force: bool,
    initial_session: str | None,
    format_name: str | None,
    working_directory: str,
) -> int:
    """Convert an eval set to another format.

    Data that the other format cannot hold is listed on standard error.
    """
    from evalgate.cli.convert import ConvertOptions
    from evalgate.cli.convert import convert_eval_set as converted

    options = ConvertOptions(eval_set, to, out, format_name, initial_session, force)
    result = converted(options, Path(working_directory))
    if out is None:
        print_json(result.text)
    for sentence in result.lost:
        print_sentence(sentence, err=True)
    return 0


@cli.command()
@click.argument("results", type=FILE, default=DEFAULT_RESULTS)
@reports_folder
@project_directory
def report(results: str, out: str, working_directory: str) -> int:
    """Render the reports again from a results.json.

    The file may be of any older version. Ends with the exit code of its verdict.
    """
    from evalgate.runner.publish import rerender_reports

    return rerender_reports(
        results,
        folder=Path(working_directory),
        out=out,
        environ=os.environ,
        stdout=sys.stdout,
        stderr=sys.stderr,
    )


for _command in (merge, baseline, *STORED_RUNS):
    cli.add_command(_command)


cli.add_command(comment)
cli.add_command(generate)
cli.add_command(init)


@cli.command(hidden=True)
@click.pass_context
def action(context: click.Context) -> int:
    """Run as a GitHub action: the inputs come from the environment."""
    from evalgate.ci.github_actions import register_masks
    from evalgate.cli.action import build_arguments, read_masks

    # The runner reads our streams. Elsewhere they may end in a file, which would then hold the secret.
    register_masks(read_masks(os.environ), environ=os.environ, stream=sys.stdout)
    with run.make_context("run", build_arguments(os.environ), parent=context) as run_context:
        return int(run.invoke(run_context))
