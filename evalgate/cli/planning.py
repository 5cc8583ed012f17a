"""The options that make a plan, for the commands that need one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.options import format_option, not_empty
from evalgate.cli.parametertypes import AGENT, BASELINE, FILE, INTERPRETER

if TYPE_CHECKING:
    from evalgate.overrides import Overrides


def _runs(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if value.isdecimal() and 1 <= int(value) <= 1000:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither `auto` nor a number from 1 to 1000", param=parameter)


_OPTIONS = (
    click.option("--agent", type=AGENT, metavar="KIND:WHAT", help="The agent, as python:agent.py:answer."),
    click.option(
        "--thresholds",
        "-c",
        type=FILE,
        metavar="FILE",
        help="Thresholds file: evalgate.yaml, .toml, .json, or Google ADK's test_config.json.",
    ),
    click.option(
        "--runs",
        metavar="N",
        callback=_runs,
        help="How often each case is run, or `auto`: as often as the baseline asks for.  [default: `auto` "
        "with a baseline of 3 runs or more of at least half of the cases, else 1]",
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
        type=BASELINE,
        metavar="WHERE",
        callback=not_empty,
        help="File, branch:NAME, artifact:NAME or URL to compare with; it must be there.  "
        "[default: `gate.baseline`, else .evalgate/baseline.json if it is there]",
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
        help="Whose rules gate a change that is not merged, its base branch's or its own: thresholds, "
        "baseline, judges' prompts and anchors, prompts and personas of simulated users, code of custom "
        "metrics. Quarantines are always the base branch's, plugins always those that are installed.  "
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
    click.option("--python", type=INTERPRETER, metavar="PATH", help="Interpreter that runs a Python agent."),
    click.option(
        "--env", multiple=True, metavar="NAME", help="Environment variable that the agent gets. Repeatable."
    ),
    click.option(
        "--mask",
        multiple=True,
        metavar="TEXT",
        help="A secret to hide in every report and log. Repeatable.",
    ),
    format_option,
)


_Command = TypeVar("_Command", bound=Callable[..., object])


def plan_options(command: _Command) -> _Command:
    """The options that make a plan, which every command that needs one takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def overrides_in(eval_sets: tuple[str, ...], said: dict[str, Any]) -> "Overrides":
    """What the command line said of the plan; `said` holds nothing else."""
    from evalgate.overrides import Overrides

    return Overrides(eval_sets=eval_sets, format=said.pop("format_name"), **said)
