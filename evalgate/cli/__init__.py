"""The command line: options in, exit code out. The only module that knows click.

Nothing heavy is imported before a command runs: `evalgate --help` must feel instant.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate import __version__
from evalgate.cli.baseline import baseline
from evalgate.cli.generate import generate
from evalgate.cli.history import COMMANDS as STORED_RUNS
from evalgate.cli.options import DEFAULT_OUT, DEFAULT_RESULTS, not_empty, working_directory
from evalgate.cli.posting import comment, endings_posted, posting_in, posting_options
from evalgate.cli.saying import say

if TYPE_CHECKING:
    from evalgate.overrides import Overrides


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evalgate")
def cli() -> None:
    """Gate changes to LLM agents: did this change make the agent worse?

    Exit codes: 0 gate open, 1 gate closed, 2 the input is wrong, 3 no trustworthy verdict, 4 inconclusive,
    70 a bug in evalgate, 130 interrupted.
    """


def _runs(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if value.isdecimal() and 1 <= int(value) <= 1000:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither `auto` nor a number from 1 to 1000", param=parameter)


_format = click.option(
    "--format",
    "format_name",
    metavar="NAME",
    callback=not_empty,
    help="Format of the eval sets, whatever their content looks like: trpc, adk-rs, adk, adk-legacy or "
    "orchestrate.",
)


_mask = click.option(
    "--mask", multiple=True, metavar="TEXT", help="A secret to hide in every report and log. Repeatable."
)


_out = click.option(
    "--out",
    default=DEFAULT_OUT,
    show_default=True,
    metavar="DIR",
    callback=not_empty,
    help="Folder for the reports.",
)


_PLAN_OPTIONS = (
    click.option("--agent", metavar="KIND:WHAT", help="The agent, as python:agent.py:answer."),
    click.option(
        "--thresholds",
        "-c",
        metavar="FILE",
        help="Thresholds file: evalgate.yaml, .toml, .json, or Google ADK's test_config.json.",
    ),
    click.option(
        "--runs",
        metavar="N",
        callback=_runs,
        help="How often each case is run, or `auto`: as often as the baseline asks for.  [default: 1]",
    ),
    click.option("--workers", type=click.IntRange(1, 256), help="Agent processes.  [default: 1]"),
    click.option(
        "--executor",
        type=click.Choice(["local", "ray"]),
        help="Where they run: on this machine, or as actors of a Ray cluster.  [default: local]",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        callback=not_empty,
        help="The Ray cluster: auto, HOST:PORT or ray://HOST:PORT; else that of RAY_ADDRESS, else one on "
        "this machine for this run.",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 10_000),
        help="Conversations at the same time, over all workers.  [default: 16]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Time that one turn may take.  [default: 60]",
    ),
    click.option(
        "--baseline",
        metavar="WHERE",
        callback=not_empty,
        help="File, branch:NAME, artifact:NAME or URL to compare with.",
    ),
    click.option(
        "--max-regression",
        type=click.FloatRange(0, 1),
        metavar="DROP",
        help="Largest drop of a metric's mean against the baseline.  [default: 0.05]",
    ),
    click.option(
        "--policy",
        type=click.Choice(["base", "head"]),
        help="Whose thresholds and baseline gate a change that is not merged: its base branch's or its own.  "
        "[default: base]",
    ),
    click.option("--adk-version", metavar="X.Y", help="Release of Google ADK whose scores are reproduced."),
    click.option(
        "--judge",
        metavar="PROVIDER/MODEL",
        callback=not_empty,
        help="Model that judges, as openai/gpt-4.1-mini; its key comes from the environment.",
    ),
    click.option(
        "--judge-cache",
        type=click.Choice(["off", "read", "read-write"]),
        help="What becomes of answers that were paid for once.  [default: read-write]",
    ),
    click.option(
        "--simulated-user",
        metavar="PROVIDER/MODEL",
        callback=not_empty,
        help="Model that plays the users of scenarios and stories, as openai/gpt-4.1-mini.",
    ),
    click.option("--setup", metavar="COMMAND", help="Shell command that installs what the agent needs."),
    click.option("--python", metavar="PATH", help="Interpreter that runs a Python agent."),
    click.option(
        "--env", multiple=True, metavar="NAME", help="Environment variable that the agent gets. Repeatable."
    ),
    _mask,
    _format,
)


_Command = TypeVar("_Command", bound=Callable[..., object])


def _plan_options(command: _Command) -> _Command:
    """The options that make a plan, which every command that needs one takes."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


def _shard(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        index, _, count = value.partition("/")
        if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= 10_000):
            raise click.BadParameter(f"{value!r} must be I/N, as 3/8", param=parameter)
    return value


@cli.command()
@click.argument("eval_sets", nargs=-1, metavar="[EVAL_SETS]...")
@_plan_options
@click.option(
    "--resume", is_flag=True, help="Go on with the run that was cut short: only what is missing is run."
)
@click.option(
    "--shard", metavar="I/N", callback=_shard, help="Run part I of N; `evalgate merge` gives the verdict."
)
@posting_options
@_out
@working_directory
def run(
    eval_sets: tuple[str, ...],
    resume: bool,
    shard: str | None,
    out: str,
    working_directory: str,
    **said: Any,
) -> int:
    """Run the eval sets against the agent and give a verdict.

    EVAL_SETS are files, folders or globs; `file.evalset.json:case_a,case_b` selects cases. Without any, the
    thresholds file names them.
    """
    from dataclasses import replace

    from evalgate.pipeline import RunOptions, run_gate
    from evalgate.plan import make_plan
    from evalgate.publish import Publisher, no_stale_reports
    from evalgate.redaction import Redactor
    from evalgate.redaction.hiding import Hiding
    from evalgate.system.interruption import Patience, ignore_end_signals

    thresholds, folder, posting = said.pop("thresholds"), Path(working_directory), posting_in(said)
    wish = _overrides(eval_sets, said)
    inputs = (wish.baseline or "", (wish.agent or "").removeprefix("replay:"))
    patience, hiding = Patience(), Hiding(Redactor.of(os.environ, wish.mask))
    with patience.kept(), endings_posted(posting, hiding), hiding.in_errors():
        with no_stale_reports(folder, out, inputs):
            plan = make_plan(wish, thresholds=thresholds, folder=folder, environ=os.environ)
            publisher = Publisher(plan.workspace, out, os.environ, sys.stdout, sys.stderr, hiding, posting)
            progress = publisher.progress(plan)

            def begin() -> None:
                patience.is_certain = True  # whatever happens from here on, there is a record
                publisher.begin()

            try:
                part = (int(shard.split("/")[0]), int(shard.split("/")[1])) if shard else None
                options = RunOptions(part, plan.workspace.folder / out, resume, hiding)
                record = run_gate(plan, progress, begin, options, publisher.tell)
                record = replace(record, options=_repeatable(working_directory, thresholds, wish))
            finally:
                progress.close()
        code = publisher.publish(record)
        ignore_end_signals()
    return code


@cli.command()
@click.argument("shards", nargs=-1, required=True, metavar="RESULTS...")
@click.option("--eval-sets", "eval_sets", multiple=True, metavar="PATTERN", help="As the shards were given.")
@_plan_options
@posting_options
@_out
@working_directory
def merge(
    shards: tuple[str, ...], eval_sets: tuple[str, ...], out: str, working_directory: str, **said: Any
) -> int:
    """Put the results of all shards together and give the verdict.

    RESULTS are the `results.json` of the shards. The other options are those that the shards were given.
    """
    from dataclasses import replace

    from evalgate.parts.shardfiles import read_shard
    from evalgate.pipeline import merge_shards
    from evalgate.plan import make_plan
    from evalgate.publish import Publisher, no_stale_reports
    from evalgate.redaction import Redactor
    from evalgate.redaction.hiding import Hiding
    from evalgate.system.collector import collector_paused

    thresholds, folder, posting = said.pop("thresholds"), Path(working_directory), posting_in(said)
    wish = _overrides(eval_sets, said)
    hiding = Hiding(Redactor.of(os.environ, wish.mask))
    # All that is read here stays to the end.
    with (
        collector_paused(),
        endings_posted(posting, hiding),
        hiding.in_errors(),
        no_stale_reports(folder, out, shards),
    ):
        plan = make_plan(wish, thresholds=thresholds, folder=folder, environ=os.environ)
        publisher = Publisher(plan.workspace, out, os.environ, sys.stdout, sys.stderr, hiding, posting)
        records = [(path, read_shard(plan.workspace.folder / path, path)) for path in shards]
        record = merge_shards(plan, records, publisher.progress(plan))
        record = replace(record, options=_repeatable(working_directory, thresholds, wish))
    return publisher.publish(record)


def _overrides(eval_sets: tuple[str, ...], said: dict[str, Any]) -> "Overrides":
    from evalgate.overrides import Overrides

    return Overrides(eval_sets=eval_sets, format=said.pop("format_name"), **said)


def _repeatable(folder: str, thresholds: str | None, wish: "Overrides") -> tuple[str, ...]:
    """What somebody who repeats the run of one case must say as well, on whatever machine."""
    given = [("-C", "" if folder == "." else folder), ("-c", thresholds), ("--python", wish.python)]
    paths = [(option, value) for option, value in given if value and not Path(value).is_absolute()]
    formats = [("--format", wish.format)] if wish.format else []
    pairs = [*paths, *formats, *(("--env", name) for name in wish.env)]
    return tuple(word for pair in pairs for word in pair)


@cli.command()
@click.argument("eval_sets", nargs=-1, metavar="[EVAL_SETS]...")
@click.option("--thresholds", "-c", metavar="FILE", help="Thresholds file.")
@_format
@working_directory
def validate(
    eval_sets: tuple[str, ...], thresholds: str | None, format_name: str | None, working_directory: str
) -> int:
    """Check eval sets and thresholds without running anything.

    Prints every problem as file:line:column and ends with exit code 2 when there is one.
    """
    from evalgate.overrides import Overrides
    from evalgate.plan import check_files
    from evalgate.redaction import Redactor

    said, redactor = Overrides(eval_sets=eval_sets, format=format_name), Redactor.of(os.environ)
    for line in check_files(said, thresholds=thresholds, folder=Path(working_directory)):
        say(line, hide=redactor.text)
    return 0


@cli.command()
@click.argument("eval_set", metavar="FILE")
@click.option(
    "--to", required=True, metavar="FORMAT", help="What to write: adk, adk-rs, trpc or orchestrate."
)
@click.option("--out", "-o", metavar="OUT", help="File to write.  [default: standard output]")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option(
    "--initial-session",
    metavar="SESSION",
    callback=not_empty,
    help="File with what an old list of turns starts with: Google ADK's initial_session_file.",
)
@_format
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
    """Write an eval set as a file of another format.

    What the other format has no place for is listed on standard error.
    """
    from evalgate.commands.convert import Wish
    from evalgate.commands.convert import convert as converted

    wish = Wish(eval_set, to, out, format_name, initial_session, force)
    result = converted(wish, Path(working_directory))
    if out is None:
        click.echo(result.text, nl=False)
    for sentence in result.lost:
        say(sentence, err=True)
    return 0


@cli.command()
@working_directory
def init(working_directory: str) -> int:
    """Write a thresholds file, a sample eval set and a workflow that run as they are.

    Files that exist are left as they are.
    """
    from evalgate.commands.init import init as write_scaffold
    from evalgate.plan import workspace_at

    for written in write_scaffold(workspace_at(Path(working_directory))):
        click.echo(f"{'kept   ' if written.kept else 'written'}  {written.path}")
    click.echo("\nNext: `evalgate run`, then point `agent.entry` in evalgate.yaml at your own agent.")
    return 0


@cli.command()
@click.argument("results", default=DEFAULT_RESULTS)
@_out
@working_directory
def report(results: str, out: str, working_directory: str) -> int:
    """Render every report again from a results.json, however old; ends with the verdict's exit code."""
    from evalgate.publish import render_again

    return render_again(
        results,
        folder=Path(working_directory),
        out=out,
        environ=os.environ,
        stdout=sys.stdout,
        stderr=sys.stderr,
    )


for _command in (baseline, *STORED_RUNS):
    cli.add_command(_command)


cli.add_command(comment)
cli.add_command(generate)


@cli.command(hidden=True)
@click.pass_context
def action(context: click.Context) -> int:
    """Run as a GitHub action: the inputs come from the environment."""
    from evalgate.commands.action import arguments, masks
    from evalgate.telling.github import announce_masks

    # The runner reads our streams. Elsewhere they may end in a file, which would then hold the secret.
    announce_masks(masks(os.environ), environ=os.environ, stream=sys.stdout)
    with run.make_context("run", arguments(os.environ), parent=context) as run_context:
        return int(run.invoke(run_context))
