"""Options of `run` and of the commands that plan, repeat or post a run."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from evalgate.cli.options import (
    AGENT,
    BASELINE,
    FILE,
    INTERPRETER,
    format_option,
    require_nonempty,
    run_in_project,
)
from evalgate.config import defaults

if TYPE_CHECKING:
    from evalgate.ci.posting import PostOptions
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.live_redactor import LiveRedactor


def _parse_runs(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if value.isdecimal() and 1 <= int(value) <= 1000:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither `auto` nor a number from 1 to 1000", param=parameter)


_OPTIONS = (
    click.option(
        "--agent",
        type=AGENT,
        metavar="KIND:WHAT",
        help="Agent to evaluate, for example python:agent.py:answer.",
    ),
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
        callback=_parse_runs,
        help="Runs of each case, or `auto`: as many as the comparison with the baseline needs.  "
        "[default: `auto` with a baseline of 3 runs or more of at least half of the cases, else 1]",
    ),
    click.option(
        "--workers", type=click.IntRange(1, 256), help=f"Agent processes.  [default: {defaults.WORKERS}]"
    ),
    click.option(
        "--executor",
        type=click.Choice(["local", "ray"]),
        help="Where the agent processes run: on this machine, or as actors of a Ray cluster.  "
        f"[default: {defaults.EXECUTOR}]",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        callback=require_nonempty,
        help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT.  [default: RAY_ADDRESS, else a cluster "
        "on this machine for this run]",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help=f"Conversations at the same time, over all workers.  [default: {defaults.CONCURRENCY}]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help=f"Longest time that one turn may take.  [default: {defaults.TURN_TIMEOUT:g}]",
    ),
    click.option(
        "--baseline",
        type=BASELINE,
        metavar="WHERE",
        callback=require_nonempty,
        help="File, branch:NAME, artifact:NAME or URL to compare with; it must be there.  "
        "[default: `gate.baseline`, else .evalgate/baseline.json if it is there]",
    ),
    click.option(
        "--max-regression",
        type=click.FloatRange(0, 1),
        metavar="DROP",
        help=f"Largest drop of a metric's mean against the baseline.  [default: {defaults.MAX_REGRESSION:g}]",
    ),
    click.option(
        "--policy",
        type=click.Choice(["base", "head"]),
        help="Whose rules gate a change that is not merged, its base branch's or its own: thresholds, "
        "baseline, judges' prompts and anchors, prompts and personas of simulated users, code of custom "
        "metrics. Quarantines are always the base branch's, plugins always those that are installed.  "
        f"[default: {defaults.POLICY}]",
    ),
    click.option("--adk-version", metavar="X.Y", help="Reproduce the scores of this Google ADK release."),
    click.option(
        "--judge",
        metavar="PROVIDER/MODEL",
        callback=require_nonempty,
        help="Model that judges, for example openai/gpt-4.1-mini; its key is read from the environment.",
    ),
    click.option(
        "--judge-cache",
        type=click.Choice(["off", "read", "read-write"]),
        help="Whether stored answers of the judge are reused and new ones stored.  "
        f"[default: {defaults.JUDGE_CACHE}]",
    ),
    click.option(
        "--simulated-user",
        metavar="PROVIDER/MODEL",
        callback=require_nonempty,
        help="Model that plays the user in scenarios and stories, for example openai/gpt-4.1-mini.",
    ),
    click.option("--setup", metavar="COMMAND", help="Shell command that installs what the agent needs."),
    click.option("--python", type=INTERPRETER, metavar="PATH", help="Interpreter that runs a Python agent."),
    click.option(
        "--env", multiple=True, metavar="NAME", help="Environment variable to pass to the agent. Repeatable."
    ),
    click.option(
        "--mask",
        multiple=True,
        metavar="TEXT",
        help="Secret to hide in every report and log. Repeatable.",
    ),
    format_option,
)


_Command = TypeVar("_Command", bound=Callable[..., object])


def add_plan_options(command: _Command) -> _Command:
    """Add the options that make a plan to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_overrides(eval_sets: tuple[str, ...], options: dict[str, Any]) -> "Overrides":
    """Return the plan options of the command line; `options` must hold nothing else."""
    from evalgate.config.cli_overrides import Overrides

    return Overrides(eval_sets=eval_sets, format=options.pop("format_name"), **options)


def build_redactor(masks: Sequence[str] = ()) -> "LiveRedactor":
    """Return the redactor of the secrets in the environment and of `masks`."""
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.redaction.redactor import Redactor

    return LiveRedactor(Redactor.from_environment(os.environ, masks))


AGAIN = "again"
"""Subfolder of the reports for a repeated case, so that the gate's own reports are kept."""


def choose_out(context: click.Context, folder: Path, out: str, agent: str | None) -> str:
    """Return the folder of the reports: `out`, or a folder in it if `out` holds the recording to replay.

    Otherwise a replay would overwrite the reports of the run that it replays. An explicit `--out` is obeyed.
    """
    kind, _, recording = (agent or "").partition(":")
    if kind != "replay" or context.get_parameter_source("out") is not ParameterSource.DEFAULT:
        return out
    is_inside = (folder / recording).resolve().is_relative_to((folder / out).resolve())
    return _append_again(out) if is_inside else out


def build_resume_command(arguments: Sequence[str]) -> str:
    """Return the command line that resumes an interrupted run, ready to paste.

    Return "" if the command was not typed by a person, as in the action, which has an input for it.
    """
    if arguments[:1] != ["run"]:
        return ""
    again = () if "--resume" in arguments else ("--resume",)
    return f"evalgate {shlex.join([*arguments, *again])}"


def build_repro_options(
    folder: str, thresholds: str | None, out: str, overrides: "Overrides", environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the options that repeat the run of one case, as names and values.

    Paths are relative to the current folder; in CI, to the root of the checkout. Paths outside of it exist
    only on the CI machine, and are left out.
    """
    stand, is_ci = _find_base_folder(environ)
    work = (Path.cwd() / folder).resolve()
    # Never resolved: the interpreter of a virtual environment is a link to one without its packages.
    python = None if overrides.python and is_ci and Path(overrides.python).is_absolute() else overrides.python
    paths = (
        ("-C", "" if work == stand else _format_path(Path.cwd() / folder, stand, folder, is_ci=is_ci)),
        ("-c", thresholds and _format_path(work / thresholds, work, thresholds, is_ci=is_ci)),
        ("--python", python),
    )
    setup = (overrides.setup or "").strip()
    values = (
        ("--format", overrides.format),
        ("--adk-version", overrides.adk_version),
        ("--judge", overrides.judge),
        ("--simulated-user", overrides.simulated_user),
        ("--timeout", None if overrides.timeout is None else f"{overrides.timeout:g}"),
        ("--setup", None if "\n" in setup else setup),
        *(("--env", name) for name in overrides.env),
        ("--out", _append_again(_format_path(work / out, work, out, is_ci=is_ci))),
    )
    return tuple(word for option, value in (*paths, *values) if value for word in (option, value))


def _find_base_folder(environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the folder that a reader works in, and whether it is the root of a checkout in CI."""
    here, root = Path.cwd().resolve(), environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR")
    if root and here.is_relative_to(Path(root).resolve()):
        return Path(root).resolve(), True
    return here, False


def _format_path(path: Path, base: Path, as_typed: str, *, is_ci: bool) -> str:
    """Return a path as it is typed in `base`; "" for one that other machines do not have."""
    found = path.resolve()
    if found.is_relative_to(base):
        return found.relative_to(base).as_posix()
    return "" if is_ci and Path(as_typed).is_absolute() else as_typed


def _append_again(out: str) -> str:
    return out if not out or Path(out).name == AGAIN else f"{out}/{AGAIN}"


_HOW = (
    click.option("--check", is_flag=True, help="Create a check run with the failing cases as annotations."),
    click.option(
        "--name",
        default="evalgate",
        show_default=True,
        metavar="GATE",
        help="Name of the gate; each has its own comment and check run.",
    ),
    click.option(
        "--section",
        default="",
        metavar="LEG",
        help="Leg of a matrix; each has its own section in the gate's comment.",
    ),
    click.option(
        "--token-env",
        default="",
        metavar="NAME",
        help="Environment variable that holds the token.  [default: GITHUB_TOKEN; "
        "in GitLab CI EVALGATE_GITLAB_TOKEN, else GITLAB_TOKEN]",
    ),
    click.option(
        "--comment-author",
        default="github-actions[bot]",
        show_default=True,
        metavar="LOGIN",
        help="Account that the token belongs to, if it is not the workflow's. GitLab reports it itself.",
    ),
)
_COMMENT = click.option(
    "--comment", is_flag=True, help="Post the report as a comment under the pull or merge request."
)


def add_posting_options(command: _Command) -> _Command:
    """Add the options for posting a report to a command."""
    return _COMMENT(_add_post_settings(command))


def _add_post_settings(command: _Command) -> _Command:
    for option in reversed(_HOW):
        command = option(command)
    return command


def pop_post_options(options: dict[str, Any]) -> "PostOptions | None":
    """Remove the posting options from `options` and return them; None if nothing is to be posted."""
    comment, author = options.pop("comment"), options.pop("comment_author")
    settings = {name: options.pop(name) for name in ("check", "name", "section", "token_env")}
    if not comment and not settings["check"]:
        return None
    from evalgate.ci.posting import PostOptions

    return PostOptions(comment=comment, author=author, **settings)


@contextmanager
def post_on_failure(posting: "PostOptions | None", redactor: "LiveRedactor") -> Iterator[None]:
    """Post to the pull request if the block ends without a verdict.

    Nothing is posted after an interruption: a newer run usually follows.
    """
    from evalgate.core.errors import RunInterruptedError

    try:
        yield
    except RunInterruptedError:
        raise
    except Exception as error:
        if posting is not None:
            from evalgate.runner.publish import post_no_verdict

            with suppress(Exception):  # what went wrong first is the error to report
                post_no_verdict(
                    error,
                    posting,
                    redactor.redact_text,
                    environ=os.environ,
                    stdout=sys.stdout,
                    stderr=sys.stderr,
                )
        raise


@click.command()
@click.argument("results", type=FILE, default="evalgate-report/results.json")
@_add_post_settings
@run_in_project
def comment(results: str, **options: Any) -> int:
    """Post a results.json to the pull or merge request.

    For a second workflow, with a token that the first must not have. The record may come from a fork: nothing
    in it is trusted. Ends with exit code 0 even if it could not be posted.
    """
    from evalgate.cli.comment import post_stored_record
    from evalgate.runner.publish import show_post

    posting = pop_post_options({**options, "comment": True})
    if posting is not None:
        for notice in post_stored_record(results, posting, folder=Path(), environ=os.environ):
            show_post(notice, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)
    return 0
