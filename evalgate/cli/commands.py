"""Options of `aa`, `backtest`, `compare`, `flaky`, `generate`, `init` and `merge`."""

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
    FormatType,
    baseline_file,
    html_page,
    not_empty,
    project_directory,
    reports_folder,
    thresholds_file,
    working_directory,
)
from evalgate.cli.output import say, say_all
from evalgate.cli.run_options import (
    endings_posted,
    options_to_repeat,
    overrides_in,
    plan_options,
    posting_in,
    posting_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalgate.cli.init import Candidates


@click.command()
@click.argument("before", metavar="A", type=FILE)
@click.argument("after", metavar="B", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Verdict and metrics for programs.")
@thresholds_file
@project_directory
def compare(before: str, after: str, as_json: bool, thresholds: str | None, working_directory: str) -> int:
    """Hold B against A, each a results.json or a baseline, without running anything.

    Says what `evalgate run` would say, and ends with the same exit code.
    """
    from evalgate.cli.compare import compared, verdict_as_json
    from evalgate.reporting.terminal import TerminalReport

    record = compared(before, after, thresholds=thresholds, folder=Path(working_directory))
    say_all(verdict_as_json(record) if as_json else TerminalReport().render(record), is_json=as_json)
    return record.verdict.exit_code


@click.command()
@click.argument("results", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--baseline", type=BASELINE, metavar="FILE", callback=not_empty, help="In the place of `gate.baseline`."
)
@thresholds_file
@project_directory
def backtest(
    results: tuple[str, ...], baseline: str | None, thresholds: str | None, working_directory: str
) -> int:
    """Say which stored verdicts would be others under the thresholds file as it is now.

    RESULTS are results.json files. Each is held against the runs of the baseline that are older.
    """
    from evalgate.cli.backtest import as_text, backtested

    found = backtested(results, thresholds=thresholds, baseline=baseline, folder=Path(working_directory))
    say_all(as_text(found))
    return 0


@click.command()
@baseline_file
@thresholds_file
@project_directory
def flaky(to: str | None, thresholds: str | None, working_directory: str) -> int:
    """List how often each case changes its mind, by the baseline, and propose quarantines."""
    from evalgate.cli.baseline import shelf_at
    from evalgate.cli.compare import thresholds_in
    from evalgate.cli.flaky import as_text, flaky_cases

    shelf = shelf_at(Path(working_directory), to, thresholds)
    rules = thresholds_in(shelf.workspace.folder, thresholds)
    held = {criterion.metric: criterion.threshold for criterion in rules.criteria}
    baseline = shelf.read()
    found = flaky_cases(baseline, held, pass_score=shelf.config.gate.statistics.pass_score)
    say_all(as_text(found, datetime.now(UTC).date(), of=len(baseline.cases)))
    return 0


@click.command()
@click.argument("stored", type=FILE, required=False, metavar="[RESULTS]")
@click.option(
    "--rounds",
    type=click.IntRange(3, 1000),
    metavar="N",
    help="Play the agent, every case N times, instead of drawing from stored runs.",
)
@click.option(
    "--repeats",
    type=click.IntRange(10, 100_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Trials that are drawn from stored runs.",
)
@thresholds_file
@project_directory
def aa(
    stored: str | None, rounds: int | None, repeats: int, thresholds: str | None, working_directory: str
) -> int:
    """Hold the agent against itself: how often the gate alarms although nothing changed.

    RESULTS is a results.json or a baseline with at least three runs of each case, better ten; the baseline of
    the thresholds file when absent.
    """
    from evalgate.cli.aa import as_text, checked_against_itself

    found = checked_against_itself(
        stored, rounds=rounds, repeats=repeats, thresholds=thresholds, folder=Path(working_directory)
    )
    say_all(as_text(found))
    return 0


COMMANDS: "Sequence[click.Command]" = (compare, backtest, flaky, aa)


@click.command()
@click.argument("shards", nargs=-1, type=FILE, required=True, metavar="RESULTS...")
@click.option(
    "--eval-sets", "eval_sets", type=FILE, multiple=True, metavar="PATTERN", help="As the shards were given."
)
@plan_options
@posting_options
@html_page
@reports_folder
@project_directory
def merge(
    shards: tuple[str, ...],
    eval_sets: tuple[str, ...],
    html: bool,
    out: str,
    working_directory: str,
    **said: Any,
) -> int:
    """Put the results of all shards together and give the verdict.

    RESULTS are the `results.json` of the shards: files, globs, or folders that hold them at any depth. The
    other options are those that the shards were given.
    """
    from dataclasses import replace

    from evalgate.redaction.live_redactor import Hiding
    from evalgate.redaction.redactor import Redactor
    from evalgate.runner.pipeline import merge_shards
    from evalgate.runner.plan import make_plan
    from evalgate.runner.publish import Publisher
    from evalgate.runner.sharding.shard_files import find_shards, read_shard
    from evalgate.system.gc import collector_paused

    thresholds, folder, posting = said.pop("thresholds"), Path(working_directory), posting_in(said)
    wish, files = overrides_in(eval_sets, said), find_shards(shards, base=folder)
    hiding, streams = Hiding(Redactor.of(os.environ, wish.mask)), (sys.stdout, sys.stderr)
    with collector_paused():  # all that is read here stays to the end
        with endings_posted(posting, hiding), hiding.in_errors():
            plan = make_plan(wish, thresholds=thresholds, folder=folder, environ=os.environ)
            publisher = Publisher(plan.workspace, out, os.environ, *streams, hiding, posting, html)
            records = [(path, read_shard(plan.workspace.folder / path, path)) for path in files]
            record = merge_shards(plan, records, publisher.progress())
            given = options_to_repeat(working_directory, thresholds, out, wish, os.environ)
            record = replace(record, options=given)
        publisher.begin()
        return publisher.publish(record)


@click.command()
@click.argument("stories", type=FILE, required=False, metavar="[STORIES]")
@click.option(
    "--from",
    "recorded",
    type=FILE,
    metavar="FILE",
    callback=not_empty,
    help="Make cases from what was recorded (results.json, conversations, traces) or written elsewhere (chat "
    "messages, questions, DeepEval and promptfoo files). No model is asked.",
)
@click.option(
    "--to",
    default="adk",
    show_default=True,
    type=FormatType(WRITABLE_FORMATS),
    metavar="FORMAT",
    help="adk, adk-rs, trpc or orchestrate.",
)
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="OUT",
    callback=not_empty,
    help="File to write; never overwritten.  [default: evals/NAME.evalset.json, with the name of the file "
    "that is read]",
)
@click.option("--agent", type=AGENT, metavar="KIND:WHAT", help="The agent, as python:agent.py:answer.")
@click.option(
    "--simulated-user", metavar="PROVIDER/MODEL", callback=not_empty, help="Model that plays the user."
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
    """Make cases for a person to review.

    STORIES is a CSV file with the columns story and agent, or a YAML list. A model plays each story with the
    agent, and what the agent did is written down as a case.
    """
    from evalgate.cli.generate import Wish, name_out
    from evalgate.cli.generate import generate as generated
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.live_redactor import Hiding
    from evalgate.redaction.redactor import Redactor

    out = out or name_out(recorded or stories)
    wish, said = (
        Wish(to, out, stories, recorded, thresholds),
        Overrides(agent=agent, simulated_user=simulated_user),
    )
    hiding = Hiding(Redactor.of(os.environ, ()))
    with hiding.in_errors():
        result = generated(wish, said, Path(working_directory), os.environ, hiding)
    for sentence in result.missing:
        say(sentence, err=True, hide=hiding.text)
    for sentence in result.cases:
        say(sentence, hide=hiding.text)
    say(f"{out}: written in the format {to}. {result.review}")
    return 0 if result.is_whole else 3


@click.command()
@click.option(
    "--agent",
    type=AGENT,
    metavar="KIND:WHAT",
    callback=not_empty,
    help="Your agent, as python:agent.py:answer. Asked for on a terminal; a sample agent is written without.",
)
@working_directory
def init(agent: str | None, working_directory: str) -> int:
    """Write a thresholds file and a workflow, and without an agent a sample that runs as it is.

    Eval sets that are there already are named in the thresholds file, and .gitignore gets what runs leave
    behind. Files that exist are left as they are.
    """
    from evalgate.cli.init import find_candidates
    from evalgate.cli.init import init as write_scaffold
    from evalgate.config.loader import find_thresholds_file
    from evalgate.runner.plan import workspace_at

    workspace = workspace_at(Path(working_directory))
    found = find_candidates(workspace.folder)
    is_asked = agent is None and find_thresholds_file(workspace.folder) is None
    if is_asked and sys.stdin.isatty() and sys.stdout.isatty():
        agent = _ask(found)
    done = write_scaffold(workspace, agent, found)
    for written in done.files:
        click.echo(f"{written.done:<8} {written.path}")
    click.echo()
    for sentence in done.next_steps:
        say(sentence)
    return 0


def _ask(found: "Candidates") -> str | None:
    """Ask for the agent until the answer is one; None for the sample."""
    from evalgate.cli.init import check_agent
    from evalgate.core.errors import InvalidInput
    from evalgate.core.sanitize import log_line

    click.echo("Which agent is gated? KIND:WHAT, as python:agent.py:answer, adk:my_agent or http:http://…")
    for number, each in enumerate(found.agents, 1):
        click.echo(f"  {number}  {log_line(each)}")
    while True:
        answer = click.prompt("Agent (Enter: a sample agent)", default="", show_default=False).strip()
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(found.agents):
            return found.agents[int(answer) - 1]
        try:
            check_agent(answer)
        except InvalidInput as error:
            say(str(error))
        else:
            return answer
