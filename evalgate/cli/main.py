"""The command line `evalgate`: its commands with their options.

The commands in `_MODULES` have modules of their own; all other commands are defined here. Heavy modules are
imported only when a command runs, so that `evalgate --help` is fast. Only `evalgate.cli` imports click.
"""

import os
import sys
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from evalgate import __version__
from evalgate.cli.help_pages import FullLineGroup
from evalgate.cli.options import (
    DEFAULT_RESULTS,
    WRITABLE_FORMATS,
    FormatParamType,
    baseline_file,
    comparison_page,
    format_option,
    in_project_directory,
    reports_folder,
    require_nonempty,
    thresholds_file,
    working_directory,
)
from evalgate.cli.project_folder import AGENT, BASELINE, FILE, run_in_project
from evalgate.cli.publish_options import add_post_settings, detailed_results, owner_reports, pop_post_options

_MODULES = {
    name: f"evalgate.cli.{name}"
    for name in (
        "accept",
        "affected",
        "baseline",
        "chat",
        "history",
        "judge",
        "matrix",
        "merge",
        "plan",
        "record",
        "results",
        "review",
        "run",
        "view",
    )
} | {"import": "evalgate.cli.import_"}
"""Module of each command that has a module of its own, by the name of the command. The module has the same
name, with `_` at its end if the name is a Python keyword."""


class _RootGroup(FullLineGroup):
    """The command `evalgate`. It imports the module of the typed command, or all modules for `--help`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command `cmd_name` or None. Import the command's module if necessary."""
        if cmd_name in _MODULES and cmd_name not in self.commands:
            module = import_module(_MODULES[cmd_name])
            self.add_command(getattr(module, module.__name__.rpartition(".")[2]))
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Load all commands and return their names."""
        for name in _MODULES:
            self.get_command(ctx, name)
        return super().list_commands(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Load all commands and write them to the help page."""
        self.list_commands(ctx)
        super().format_commands(ctx, formatter)


@click.group(
    cls=_RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="evalgate")
def cli() -> None:
    """Gate changes to LLM agents: did this change make the agent worse?

    Exit codes: 0 gate open, 1 gate closed, 2 the input is wrong, 3 no trustworthy verdict, 4 inconclusive,
    70 a bug in evalgate, 130 interrupted.
    """


@cli.command()
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@thresholds_file
@format_option
@in_project_directory
def validate(
    eval_sets: tuple[str, ...], thresholds: str | None, format_name: str | None, working_directory: str
) -> int:
    """Check eval sets and thresholds without running anything.

    Prints every problem as file:line:column and ends with exit code 2 if there is one.
    """
    from evalgate.cli.redacted_output import print_sentence
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.redactor import Redactor
    from evalgate.runner.validation import check_files

    overrides = Overrides(eval_sets=eval_sets, format=format_name)
    redactor = Redactor.from_environment(os.environ)
    for line in check_files(overrides, thresholds_file=thresholds, folder=Path(working_directory)):
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
    from evalgate.cli.redacted_output import print_json, print_sentence

    options = ConvertOptions(eval_set, to, out, format_name, initial_session, force)
    result = converted(options, Path(working_directory))
    if out is None:
        print_json(result.text)
    for sentence in result.lost:
        print_sentence(sentence, err=True)
    return 0


@cli.command()
@click.argument("stories", type=FILE, required=False, metavar="[STORIES]")
@click.option(
    "--from",
    "recorded",
    type=FILE,
    metavar="FILE",
    callback=require_nonempty,
    help="Make cases from recordings (results.json, conversations, traces) or from files of other tools "
    "(chat messages, questions, DeepEval, promptfoo). No model is called.",
)
@click.option(
    "--to",
    default="adk",
    show_default=True,
    type=FormatParamType(WRITABLE_FORMATS),
    metavar="FORMAT",
    help="Format to write: adk, adk-rs, trpc or orchestrate.",
)
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="OUT",
    callback=require_nonempty,
    help="File to write; never overwritten.  [default: evals/NAME.evalset.json, with the name of the file "
    "that is read]",
)
@click.option(
    "--agent", type=AGENT, metavar="KIND:WHAT", help="Agent to run, for example python:agent.py:answer."
)
@click.option(
    "--simulated-user", metavar="PROVIDER/MODEL", callback=require_nonempty, help="Model that plays the user."
)
@thresholds_file
@in_project_directory
def generate(
    stories: str | None,
    recorded: str | None,
    to: str,
    out: str | None,
    agent: str | None,
    simulated_user: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Generate cases for review from stories or recordings.

    STORIES is a CSV file with the columns story and agent, or a YAML list. A model plays each story with the
    agent, and the conversation is written as a case.
    """
    from evalgate.cli.generate import GenerateOptions, choose_out_path
    from evalgate.cli.generate import generate_cases as generated
    from evalgate.cli.redacted_output import print_sentence
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.live_redactor import LiveRedactor

    out = out or choose_out_path(recorded or stories)
    options, overrides = (
        GenerateOptions(to, out, stories, recorded, thresholds),
        Overrides(agent=agent, simulated_user=simulated_user),
    )
    redactor = LiveRedactor.from_environment(os.environ)
    with redactor.redact_errors():
        result = generated(options, overrides, Path(working_directory), os.environ, redactor)
    for sentence in result.missing:
        print_sentence(sentence, err=True, hide=redactor.redact_text)
    for sentence in result.cases:
        print_sentence(sentence, hide=redactor.redact_text)
    print_sentence(f"{out}: written in the format {to}. {result.review}")
    return 0 if result.is_whole else 3


@cli.command()
@click.option(
    "--agent",
    type=AGENT,
    metavar="KIND:WHAT",
    callback=require_nonempty,
    help="Your agent, for example python:agent.py:answer. If absent, a terminal asks for it; "
    "otherwise a sample agent is written.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(),
    metavar="PATH",
    callback=require_nonempty,
    help="File or folder of a project of Google ADK, tRPC-Agent-Go, LangGraph, promptfoo or DeepEval: its "
    "agent, eval sets and criteria are taken over.",
)
@working_directory
def init(agent: str | None, source: str | None, working_directory: str) -> int:
    """Write a thresholds file, a workflow and a sample agent.

    The sample is written only if no agent is given and none is taken over. Existing eval sets are named in
    the thresholds file, and the files that runs create are added to .gitignore. Other existing files are
    not changed.
    """
    from evalgate.cli.init import init_project

    init_project(agent, source, Path(working_directory))
    return 0


@cli.command()
@click.argument("results", type=FILE, default=DEFAULT_RESULTS)
@owner_reports
@detailed_results
@reports_folder
@in_project_directory
def report(results: str, reports: tuple[str, ...], details: bool, out: str, working_directory: str) -> int:
    """Render the reports again from a results.json.

    The file may be of any older version. Ends with the exit code of its verdict.
    """
    from evalgate.runner.rerender import rerender_reports

    return rerender_reports(
        results,
        folder=Path(working_directory),
        out=out,
        environ=os.environ,
        stdout=sys.stdout,
        stderr=sys.stderr,
        requested=reports,
        details=details,
    )


@cli.command()
@click.argument("results", type=FILE, default="evalgate-report/results.json")
@add_post_settings
@run_in_project
def comment(results: str, **options: Any) -> int:
    """Post a results.json to the pull or merge request.

    For a second workflow, with a token that the first must not have. The record may come from a fork: nothing
    in it is trusted. Ends with exit code 0 even if it could not be posted.
    """
    from evalgate.cli.comment import post_stored_record
    from evalgate.runner.posts import show_post

    posting = pop_post_options({**options, "comment": True})
    if posting is not None:
        show = partial(show_post, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)
        post_stored_record(results, posting, show, folder=Path(), environ=os.environ)
    return 0


@cli.command()
@click.argument("before", metavar="A", type=FILE)
@click.argument("after", metavar="B", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and the metrics as JSON.")
@comparison_page
@thresholds_file
@in_project_directory
def compare(
    before: str, after: str, as_json: bool, page: str | None, thresholds: str | None, working_directory: str
) -> int:
    """Compare two stored results or baselines.

    A and B are each a results.json or a baseline; B is compared with A. Nothing is run. Prints what
    `evalgate run` would print, and ends with the same exit code.
    """
    from evalgate.cli.compare import compare_results, format_verdict_json, write_comparison_page
    from evalgate.cli.redacted_output import print_report
    from evalgate.reporting.terminal import TerminalReport

    record = compare_results(before, after, thresholds_file=thresholds, folder=Path(working_directory))
    if page is not None:
        write_comparison_page(record, before, page, folder=Path(working_directory))
    print_report(format_verdict_json(record) if as_json else TerminalReport().render(record), is_json=as_json)
    return record.verdict.exit_code


@cli.command()
@click.argument("results", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--baseline",
    type=BASELINE,
    metavar="FILE",
    callback=require_nonempty,
    help="Baseline to use instead of `gate.baseline`.",
)
@thresholds_file
@in_project_directory
def backtest(
    results: tuple[str, ...], baseline: str | None, thresholds: str | None, working_directory: str
) -> int:
    """Judge stored results again by today's thresholds.

    RESULTS are results.json files. Each is compared with the runs of the baseline that are older than it.
    Prints a line for every result, and the new reasons if its verdict would change. The exit code does not
    depend on the verdicts.
    """
    from evalgate.cli.backtest import format_backtest, run_backtest
    from evalgate.cli.redacted_output import print_report

    found = run_backtest(
        results, thresholds_file=thresholds, baseline=baseline, folder=Path(working_directory)
    )
    print_report(format_backtest(found))
    return 0


@cli.command()
@baseline_file
@thresholds_file
@in_project_directory
def flaky(to: str | None, thresholds: str | None, working_directory: str) -> int:
    """List flaky cases of the baseline and propose quarantines.

    Averages that changed their level are named first, with the commit.
    """
    from evalgate.cli.flaky import build_flaky_report
    from evalgate.cli.redacted_output import print_report

    print_report(build_flaky_report(Path(working_directory), to, thresholds, datetime.now(UTC).date()))
    return 0


@cli.command()
@click.argument("stored", type=FILE, required=False, metavar="[RESULTS]")
@click.option(
    "--rounds",
    type=click.IntRange(3, 1000),
    metavar="N",
    help="Run the agent, every case N times, instead of drawing from stored runs.",
)
@click.option(
    "--repeats",
    type=click.IntRange(10, 100_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Number of trials to draw from stored runs.",
)
@thresholds_file
@in_project_directory
def aa(
    stored: str | None, rounds: int | None, repeats: int, thresholds: str | None, working_directory: str
) -> int:
    """Measure how often the gate fails an unchanged agent.

    Compares the agent with itself. RESULTS is a results.json or a baseline with at least three runs of each
    case, better ten. If absent, the baseline of the thresholds file is used.
    """
    from evalgate.cli.aa import format_aa_result, measure_false_alarms
    from evalgate.cli.redacted_output import print_report

    found = measure_false_alarms(
        stored, rounds=rounds, repeats=repeats, thresholds_file=thresholds, folder=Path(working_directory)
    )
    print_report(format_aa_result(found))
    return 0


@cli.command(hidden=True)
@click.pass_context
def action(context: click.Context) -> int:
    """Run as a GitHub action: the inputs come from the environment."""
    from evalgate.ci.github_actions import register_masks
    from evalgate.cli.action_inputs import parse_inputs, read_masks
    from evalgate.cli.run import run

    # Masks are registered only here, because GitHub's runner reads the stream of an action. The stream of
    # another command may be a file, which would then hold the secrets.
    register_masks(read_masks(os.environ), environ=os.environ, stream=sys.stdout)
    with parse_inputs(run, context, os.environ) as run_context:
        return int(run.invoke(run_context))
