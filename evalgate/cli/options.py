"""Options that several commands share, and the conversion of their values."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.project_folder import AGENT, BASELINE, FILE, FOLDER, INTERPRETER, TextType, run_in_project
from evalgate.config import option_defaults as defaults

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from evalgate.config.cli_overrides import Overrides, SelectionOptions

DEFAULT_OUT = "evalgate-report"
DEFAULT_RESULTS = f"{DEFAULT_OUT}/results.json"

# Written out, because the registry of plugins loads too slowly for shell completion. A test compares both.
FORMATS = ("adk", "adk-legacy", "adk-rs", "trpc", "orchestrate")
WRITABLE_FORMATS = ("adk", "adk-rs", "trpc", "orchestrate")

_Command = TypeVar("_Command", bound=Callable[..., object])


class FormatParamType(TextType):
    """Parameter type of a format's name. Any text is accepted, because other packages may add formats."""

    name = "format"

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Return the formats that begin with the typed text."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(name) for name in self._names if name.startswith(incomplete)]


def require_nonempty(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the value, or None if the option is absent. Raise `BadParameter` for a blank value."""
    if value is not None and not value.strip():
        raise click.BadParameter("must not be empty", param=parameter)
    return value


def add_options(command: _Command, options: Sequence[Callable[[_Command], _Command]]) -> _Command:
    """Add options to a command. Its help lists the options in the order of `options`."""
    for option in reversed(options):
        command = option(command)
    return command


nonempty_option = functools.partial(click.option, callback=require_nonempty)
"""Like `click.option`, but rejects a blank value, for example of a variable that a CI job does not set."""

working_directory = click.option(
    "--working-directory",
    "-C",
    default=".",
    show_default=True,
    type=FOLDER,
    metavar="DIR",
    help="Folder to work in; every other path is relative to it.",
)
"""Option of commands that read no thresholds file."""

_project_directory = click.option(
    "--working-directory",
    "-C",
    type=FOLDER,
    metavar="DIR",
    help="Folder to work in; every other path is relative to it.  [default: folder of the nearest thresholds "
    "file, here or above, within the repository]",
)


def in_project_directory(command: _Command) -> _Command:
    """Add `--working-directory` to a command, and run it in the folder of the nearest thresholds file."""
    return _project_directory(run_in_project(command))


thresholds_file = click.option("--thresholds", "-c", type=FILE, metavar="FILE", help="Thresholds file.")

baseline_file = nonempty_option(
    "--to",
    type=BASELINE,
    metavar="FILE",
    help="Baseline to work on.  [default: `gate.baseline`, else .evalgate/baseline.json]",
)

new_file_format = click.option(
    "--to",
    type=FormatParamType(WRITABLE_FORMATS),
    metavar="FORMAT",
    help="Format of a new file: adk, adk-rs, trpc or orchestrate.  [default: adk]",
)

format_option = nonempty_option(
    "--format",
    "format_name",
    type=FormatParamType(FORMATS),
    metavar="NAME",
    help="Format of the eval sets, instead of detecting it: trpc, adk-rs, adk, adk-legacy or orchestrate.",
)

comparison_page = nonempty_option(
    "--html",
    "page",
    type=FILE,
    metavar="FILE",
    help="Write the comparison as a page, too: each case with its replies in A and B.",
)
reports_folder = nonempty_option(
    "--out",
    default=DEFAULT_OUT,
    show_default=True,
    type=FOLDER,
    metavar="DIR",
    help="Folder for the reports.",
)


# --- the options of every command that reads cases ---------------------------------------------------------


class TagParamType(TextType):
    """Parameter type of a tag of cases, or of `!` followed by a tag."""

    name = "tag"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Return those tags of the cases in the last results that begin with the typed text."""
        from evalgate.cli.shell_completion import complete_tag

        del ctx, param
        return complete_tag(incomplete, DEFAULT_RESULTS)


_CASE_FILTERS = (
    click.option(
        "--tag",
        "tags",
        multiple=True,
        type=TagParamType(),
        metavar="TAG",
        help="Run the cases with this tag; with `!TAG` those without it. Repeatable: one of the tags is "
        "enough.",
    ),
    click.option(
        "-k",
        "keyword",
        metavar="EXPRESSION",
        callback=require_nonempty,
        help="Run the cases that match the expression, as pytest's: parts of ids, eval sets and tags, with "
        "`and`, `or`, `not` and parentheses.",
    ),
)


def add_case_filters(command: _Command) -> _Command:
    """Add `--tag` and `-k` to a command. These options select cases."""
    return add_options(command, _CASE_FILTERS)


def pop_case_filters(options: dict[str, Any]) -> "SelectionOptions":
    """Remove `--tag` and `-k` from `options`, and return their values."""
    from evalgate.config.cli_overrides import SelectionOptions

    return SelectionOptions(tags=options.pop("tags"), keyword=options.pop("keyword"))


# --- the options of a plan ----------------------------------------------------------------------------------


def _parse_runs(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if value.isdecimal() and 1 <= int(value) <= 1000:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither `auto` nor a number from 1 to 1000", param=parameter)


_AGENT_OPTIONS = (
    click.option(
        "--agent", type=AGENT, metavar="KIND:WHAT", help="Agent to run, for example python:agent.py:answer."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help=f"Longest time that one turn may take.  [default: {defaults.TURN_TIMEOUT:g}]",
    ),
    nonempty_option("--app-name", metavar="NAME", help="Name of the app for cases that name none."),
    nonempty_option("--user-id", metavar="ID", help="Id of the user for cases that name none."),
    click.option("--setup", metavar="COMMAND", help="Shell command that installs what the agent needs."),
    click.option("--python", type=INTERPRETER, metavar="PATH", help="Interpreter that runs a Python agent."),
    click.option(
        "--env", multiple=True, metavar="NAME", help="Environment variable to pass to the agent. Repeatable."
    ),
    click.option(
        "--env-file",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="File with lines NAME=value: variables to pass to the agent. Repeatable.",
    ),
    click.option(
        "--mask", multiple=True, metavar="TEXT", help="Secret to hide in every report and log. Repeatable."
    ),
)

_MEASURE_OPTIONS = (
    *_AGENT_OPTIONS,
    click.option(
        "--thresholds",
        "-c",
        type=FILE,
        metavar="FILE",
        help="Thresholds file: evalgate.yaml, .toml, .json, or Google ADK's test_config.json; or a folder "
        "with a SET.metrics.json for each eval set.",
    ),
    click.option(
        "--workers", type=click.IntRange(1, 256), help=f"Agent processes.  [default: {defaults.WORKERS}]"
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help=f"Conversations at the same time, over all workers.  [default: {defaults.CONCURRENCY}]",
    ),
    click.option(
        "--max-regression",
        type=click.FloatRange(0, 1),
        metavar="DROP",
        help=f"Largest allowed drop of a metric's mean.  [default: {defaults.MAX_REGRESSION:g}]",
    ),
    click.option("--adk-version", metavar="X.Y", help="Reproduce the scores of this Google ADK release."),
    nonempty_option(
        "--judge",
        metavar="PROVIDER/MODEL",
        help="Model that judges, for example openai/gpt-4.1-mini; its key is read from the environment.",
    ),
    click.option(
        "--judge-cache",
        type=click.Choice(["off", "read", "read-write"]),
        help="Whether stored answers of the judge are reused and new ones stored.  "
        f"[default: {defaults.JUDGE_CACHE}]",
    ),
    nonempty_option(
        "--simulated-user",
        metavar="PROVIDER/MODEL",
        help="Model that plays the user in scenarios and stories, for example openai/gpt-4.1-mini.",
    ),
    nonempty_option(
        "--initial-session",
        type=FILE,
        metavar="FILE",
        help="Session that old lists of turns start with: Google ADK's initial_session_file.",
    ),
    click.option(
        "--live-tools",
        is_flag=True,
        help="Call the tools for real, although `tool_mocks` names a recording: records it anew.",
    ),
    click.option(
        "--trace",
        is_flag=True,
        help="Keep in results.json, for each run, the calls of models with requests and responses, and those "
        "of tools and agents, with times.",
    ),
    format_option,
)
"""Options that `run`, `merge` and `matrix` share."""

_PLAN_OPTIONS = (
    *_MEASURE_OPTIONS,
    click.option(
        "--runs",
        metavar="N",
        callback=_parse_runs,
        help="Runs of each case, or `auto`: as many as the comparison with the baseline needs.  "
        "[default: `auto` with a baseline of 3 runs or more of at least half of the cases, else 1]",
    ),
    click.option(
        "--executor",
        type=click.Choice(["local", "ray"]),
        help="Where the agent processes run: on this machine, or as actors of a Ray cluster.  "
        f"[default: {defaults.EXECUTOR}]",
    ),
    nonempty_option(
        "--ray-address",
        metavar="ADDRESS",
        help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT.  [default: RAY_ADDRESS, else a cluster "
        "on this machine for this run]",
    ),
    nonempty_option(
        "--baseline",
        type=BASELINE,
        metavar="WHERE",
        help="File, branch:NAME, artifact:NAME or URL to compare with; it must be there.  "
        "[default: `gate.baseline`, else .evalgate/baseline.json if it is there]",
    ),
    click.option(
        "--report-only",
        is_flag=True,
        help="Never close the gate: reports say what it would have done, and the exit code is 0 instead of 1 "
        "or 4.",
    ),
    click.option(
        "--policy",
        type=click.Choice(["base", "head"]),
        help="Whose rules gate a change that is not merged, its base branch's or its own: thresholds, "
        "baseline, judges' prompts and anchors, prompts and personas of simulated users, code of custom "
        "metrics. Quarantines are always the base branch's, plugins always those that are installed.  "
        f"[default: {defaults.POLICY}]",
    ),
    nonempty_option(
        "--control",
        metavar="REF",
        help="Commit of the agent for control runs, such as main.  [default: in CI the base of the change]",
    ),
)


def add_plan_options(command: _Command) -> _Command:
    """Add to a command all options of `add_measure_options`, and options of a gate, such as `--runs`."""
    return add_options(command, _PLAN_OPTIONS)


def add_measure_options(command: _Command) -> _Command:
    """Add to a command the options of agent, judge and thresholds that `run`, `merge` and `matrix` share."""
    return add_options(command, _MEASURE_OPTIONS)


def add_agent_options(command: _Command) -> _Command:
    """Add `--thresholds` and the options of the agent and its environment to a command."""
    return thresholds_file(add_options(command, _AGENT_OPTIONS))


def build_overrides(
    eval_sets: tuple[str, ...], options: dict[str, Any], selection: "SelectionOptions | None" = None
) -> "Overrides":
    """Build overrides from the options of the command line. `options` maps fields of `Overrides` to values.

    The option `format_name` becomes the field `format`, and is removed from `options`. If `selection` is
    None, every case is selected.
    """
    from evalgate.config.cli_overrides import EVERY_CASE, Overrides

    name = options.pop("format_name", None)
    return Overrides(eval_sets=eval_sets, format=name, selection_options=selection or EVERY_CASE, **options)
