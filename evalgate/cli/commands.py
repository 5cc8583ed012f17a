"""Commands `aa`, `backtest`, `compare`, `flaky`, `generate`, `init` and `merge` with their options."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalgate.cli.options import (
    AGENT,
    BASELINE,
    FILE,
    WRITABLE_FORMATS,
    FormatParamType,
    SectionedCommand,
    baseline_file,
    html_page,
    project_directory,
    reports_folder,
    require_nonempty,
    thresholds_file,
    working_directory,
)
from evalgate.cli.output import print_report, print_sentence
from evalgate.cli.run_options import (
    add_plan_options,
    add_posting_options,
    build_overrides,
    build_redactor,
    build_repro_options,
    pop_post_options,
    post_on_failure,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalgate.cli.init import Candidates


@click.command()
@click.argument("before", metavar="A", type=FILE)
@click.argument("after", metavar="B", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and the metrics as JSON.")
@thresholds_file
@project_directory
def compare(before: str, after: str, as_json: bool, thresholds: str | None, working_directory: str) -> int:
    """Compare two stored results or baselines.

    A and B are each a results.json or a baseline; B is compared with A. Nothing is run. Prints what
    `evalgate run` would print, and ends with the same exit code.
    """
    from evalgate.cli.compare import compare_results, format_verdict_json
    from evalgate.reporting.terminal import TerminalReport

    record = compare_results(before, after, thresholds=thresholds, folder=Path(working_directory))
    print_report(format_verdict_json(record) if as_json else TerminalReport().render(record), is_json=as_json)
    return record.verdict.exit_code


@click.command()
@click.argument("results", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--baseline",
    type=BASELINE,
    metavar="FILE",
    callback=require_nonempty,
    help="Baseline to use instead of `gate.baseline`.",
)
@thresholds_file
@project_directory
def backtest(
    results: tuple[str, ...], baseline: str | None, thresholds: str | None, working_directory: str
) -> int:
    """List stored verdicts that today's thresholds would change.

    RESULTS are results.json files. Each is compared with the runs of the baseline that are older.
    """
    from evalgate.cli.backtest import format_backtest, run_backtest

    found = run_backtest(results, thresholds=thresholds, baseline=baseline, folder=Path(working_directory))
    print_report(format_backtest(found))
    return 0


@click.command()
@baseline_file
@thresholds_file
@project_directory
def flaky(to: str | None, thresholds: str | None, working_directory: str) -> int:
    """List flaky cases of the baseline and propose quarantines."""
    from evalgate.cli.baseline import resolve_target
    from evalgate.cli.compare import load_thresholds_or_default
    from evalgate.cli.flaky import format_flaky_report, rank_flaky_cases

    shelf = resolve_target(Path(working_directory), to, thresholds)
    rules = load_thresholds_or_default(shelf.workspace.folder, thresholds)
    held = {criterion.metric: criterion.threshold for criterion in rules.criteria}
    baseline = shelf.read()
    found = rank_flaky_cases(baseline, held, pass_score=shelf.config.gate.statistics.pass_score)
    print_report(format_flaky_report(found, datetime.now(UTC).date(), of=len(baseline.cases)))
    return 0


@click.command()
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
@project_directory
def aa(
    stored: str | None, rounds: int | None, repeats: int, thresholds: str | None, working_directory: str
) -> int:
    """Measure how often the gate fails an unchanged agent.

    Compares the agent with itself. RESULTS is a results.json or a baseline with at least three runs of each
    case, better ten. If absent, the baseline of the thresholds file is used.
    """
    from evalgate.cli.aa import format_aa_result, measure_false_alarms

    found = measure_false_alarms(
        stored, rounds=rounds, repeats=repeats, thresholds=thresholds, folder=Path(working_directory)
    )
    print_report(format_aa_result(found))
    return 0


COMMANDS: "Sequence[click.Command]" = (compare, backtest, flaky, aa)


@click.command(cls=SectionedCommand)
@click.argument("shards", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--eval-sets",
    "eval_sets",
    type=FILE,
    multiple=True,
    metavar="PATTERN",
    help="Eval sets, as the shards were given.",
)
@add_plan_options
@add_posting_options
@html_page
@reports_folder
@project_directory
def merge(
    shards: tuple[str, ...],
    eval_sets: tuple[str, ...],
    html: bool,
    out: str,
    working_directory: str,
    **options: Any,
) -> int:
    """Merge the results of all shards and print the verdict.

    RESULTS are the `results.json` of the shards: files, globs, or folders that hold them at any depth. Give
    the other options as the shards were given them.
    """
    from dataclasses import replace

    from evalgate.runner.pipeline import merge_shards
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher
    from evalgate.runner.sharding.shard_files import find_shards, read_shard
    from evalgate.system.gc import pause_gc

    thresholds, folder = options.pop("thresholds"), Path(working_directory)
    posting = pop_post_options(options)
    overrides, files = build_overrides(eval_sets, options), find_shards(shards, base=folder)
    redactor = build_redactor(overrides.mask)
    with pause_gc():  # all that is read here stays to the end
        with post_on_failure(posting, redactor), redactor.redact_errors():
            plan = build_plan(overrides, thresholds=thresholds, folder=folder, environ=os.environ)
            streams = (sys.stdout, sys.stderr)
            publisher = Publisher(plan.workspace, out, os.environ, *streams, redactor, posting, html)
            records = [(path, read_shard(plan.workspace.folder / path, path)) for path in files]
            record = merge_shards(plan, records, publisher.build_progress())
            given = build_repro_options(working_directory, thresholds, out, overrides, os.environ)
            record = replace(record, options=given)
        publisher.clear_previous_reports()
        return publisher.publish(record)


@click.command()
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
@project_directory
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
    from evalgate.config.cli_overrides import Overrides

    out = out or choose_out_path(recorded or stories)
    options, overrides = (
        GenerateOptions(to, out, stories, recorded, thresholds),
        Overrides(agent=agent, simulated_user=simulated_user),
    )
    redactor = build_redactor()
    with redactor.redact_errors():
        result = generated(options, overrides, Path(working_directory), os.environ, redactor)
    for sentence in result.missing:
        print_sentence(sentence, err=True, hide=redactor.redact_text)
    for sentence in result.cases:
        print_sentence(sentence, hide=redactor.redact_text)
    print_sentence(f"{out}: written in the format {to}. {result.review}")
    return 0 if result.is_whole else 3


@click.command()
@click.option(
    "--agent",
    type=AGENT,
    metavar="KIND:WHAT",
    callback=require_nonempty,
    help="Your agent, for example python:agent.py:answer. If absent, a terminal asks for it; "
    "otherwise a sample agent is written.",
)
@working_directory
def init(agent: str | None, working_directory: str) -> int:
    """Write a thresholds file, a workflow and a sample agent.

    The sample is written only if no agent is given. Existing eval sets are named in the thresholds file, and
    the files that runs create are added to .gitignore. Existing files are not changed.
    """
    from evalgate.cli.init import find_candidates, write_scaffold
    from evalgate.config.loader import find_thresholds_file
    from evalgate.runner.plan import resolve_workspace

    workspace = resolve_workspace(Path(working_directory))
    found = find_candidates(workspace.folder)
    is_asked = agent is None and find_thresholds_file(workspace.folder) is None
    if is_asked and sys.stdin.isatty() and sys.stdout.isatty():
        agent = _ask_for_agent(found)
    done = write_scaffold(workspace, agent, found)
    for written in done.files:
        click.echo(f"{written.done:<8} {written.path}")
    click.echo()
    for sentence in done.next_steps:
        print_sentence(sentence)
    return 0


def _ask_for_agent(found: "Candidates") -> str | None:
    """Ask for the agent until the answer is valid; return None for the sample."""
    from evalgate.cli.init import check_agent
    from evalgate.core.errors import InvalidInputError
    from evalgate.core.sanitize import to_log_line

    click.echo("Which agent is gated? KIND:WHAT, as python:agent.py:answer, adk:my_agent or http:http://…")
    for number, each in enumerate(found.agents, 1):
        click.echo(f"  {number}  {to_log_line(each)}")
    while True:
        answer = click.prompt("Agent (Enter: a sample agent)", default="", show_default=False).strip()
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(found.agents):
            return found.agents[int(answer) - 1]
        try:
            check_agent(answer)
        except InvalidInputError as error:
            print_sentence(str(error))
        else:
            return answer
