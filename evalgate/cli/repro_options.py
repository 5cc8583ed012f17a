"""Build the command lines that repeat or resume a run, and choose the reports' folder of a repeated run."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from evalgate.config.cli_overrides import Overrides
    from evalgate.runner.publish import Publisher

AGAIN = "again"
"""Subfolder of the reports for a repeated case, so that the gate's own reports are kept."""


def choose_out(context: click.Context, folder: Path, out: str, agent: str | None) -> str:
    """Return the folder for the reports: `out`, or `out/again` if `agent` replays a recording in `out`.

    A replay must not overwrite the reports of the run that it repeats. If the user typed `--out`, return
    `out` in any case.
    """
    kind, _, recording = (agent or "").partition(":")
    if kind != "replay" or context.get_parameter_source("out") is not ParameterSource.DEFAULT:
        return out
    # Not `Path.resolve`, which raises RuntimeError for a link to itself before Python 3.13.
    is_inside = Path(os.path.realpath(folder / recording)).is_relative_to(os.path.realpath(folder / out))
    return _append_again(out) if is_inside else out


def suggest_resume(publisher: "Publisher", reports: Path) -> None:
    """Print the command that resumes the run, if the run left a journal in the folder `reports`."""
    from evalgate.runner.checkpoint.journal import FILE_NAME

    if (reports / FILE_NAME).is_file() and (again := build_resume_command(sys.argv[1:])):
        publisher.print_notice(f"Continue this run with: {again}")


def build_resume_command(arguments: Sequence[str]) -> str:
    """Build the command line that resumes an interrupted run.

    Return "" if the arguments do not begin with `run` or `matrix`. This is so in the GitHub action, which has
    an input `resume` instead.
    """
    if arguments[:1] not in (["run"], ["matrix"]):
        return ""
    again = () if "--resume" in arguments else ("--resume",)
    # `--resume` goes before `--`, because nothing after `--` is an option. `run --watch` gives every run a
    # `--`, perhaps with nothing after it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest = arguments[end:] if arguments[end + 1 :] else ()
    return f"evalgate {shlex.join([*arguments[:end], *again, *rest])}"


def build_repro_options(
    folder: str, thresholds_file: str | None, out: str, overrides: "Overrides", environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Build the options of a command line that repeats the run of one case.

    `folder` is the value of `-C` in the present run. In the returned options, `-C` is relative to the current
    folder, or in CI to the root of the checkout. `-c` and `--out` are relative to `folder`. In CI, absolute
    paths outside of these folders and an absolute `--python` are left out: only the CI machine has them.
    """
    reader_folder, is_ci = _find_reader_folder(environ)
    work = (Path.cwd() / folder).resolve()
    # `--python` is not resolved: in a virtual environment, the interpreter is a link to another one, which
    # does not have the environment's packages.
    python = None if overrides.python and is_ci and Path(overrides.python).is_absolute() else overrides.python
    paths = (
        (
            "-C",
            ""
            if work == reader_folder
            else _format_typed_path(Path.cwd() / folder, reader_folder, folder, is_ci=is_ci),
        ),
        (
            "-c",
            thresholds_file
            and _format_typed_path(work / thresholds_file, work, thresholds_file, is_ci=is_ci),
        ),
        ("--python", python),
    )
    setup = (overrides.setup or "").strip()
    values = (
        ("--format", overrides.format),
        ("--initial-session", overrides.initial_session),
        ("--app-name", overrides.app_name),
        ("--user-id", overrides.user_id),
        ("--adk-version", overrides.adk_version),
        ("--judge", overrides.judge),
        ("--simulated-user", overrides.simulated_user),
        ("--timeout", None if overrides.timeout is None else f"{overrides.timeout:g}"),
        ("--setup", None if "\n" in setup else setup),
        *(("--env", name) for name in overrides.env),
        *(("--env-file", file) for file in overrides.env_file),
        ("--out", _append_again(_format_typed_path(work / out, work, out, is_ci=is_ci))),
    )
    words = tuple(word for option, value in (*paths, *values) if value for word in (option, value))
    return (*words, "--live-tools") if overrides.live_tools else words


def _find_reader_folder(environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the folder in which a reader of reports types commands, and True if it is a CI checkout.

    The folder is the root of the checkout if a CI job runs in the checkout, and otherwise the current folder.
    """
    here, root = Path.cwd().resolve(), environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR")
    if root and here.is_relative_to(Path(root).resolve()):
        return Path(root).resolve(), True
    return here, False


def _format_typed_path(path: Path, folder: Path, as_typed: str, *, is_ci: bool) -> str:
    """Return `path` relative to `folder`, or `as_typed` if `path` lies outside of `folder`.

    In CI, return "" instead of an absolute `as_typed`, because only the CI machine has this path.
    """
    found = path.resolve()
    if found.is_relative_to(folder):
        return found.relative_to(folder).as_posix()
    return "" if is_ci and Path(as_typed).is_absolute() else as_typed


def _append_again(out: str) -> str:
    return out if not out or Path(out).name == AGAIN else f"{out}/{AGAIN}"
