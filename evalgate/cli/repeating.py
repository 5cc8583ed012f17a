"""The options with which a reader of a report repeats a run, and where its reports go then."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from evalgate.overrides import Overrides

AGAIN = "again"
"""Folder in that of the reports for whoever repeats a case: the gate's own reports stay as they are."""


def choose_out(context: click.Context, folder: Path, out: str, agent: str | None) -> str:
    """Return the folder of the reports: `out`, or one in it for the replay of what `out` itself holds.

    A replay would put its reports in the place of the run that it replays. Whoever names `--out` is obeyed.
    """
    kind, _, recording = (agent or "").partition(":")
    if kind != "replay" or context.get_parameter_source("out") is not ParameterSource.DEFAULT:
        return out
    is_inside = (folder / recording).resolve().is_relative_to((folder / out).resolve())
    return _again(out) if is_inside else out


def command_to_resume(arguments: Sequence[str]) -> str:
    """Return the command line that goes on with a run that was cut short, to be pasted where it was typed.

    "" where nobody typed one, as in the action, which has an input for it.
    """
    if arguments[:1] != ["run"]:
        return ""
    again = () if "--resume" in arguments else ("--resume",)
    return f"evalgate {shlex.join([*arguments, *again])}"


def options_to_repeat(
    folder: str, thresholds: str | None, out: str, wish: "Overrides", environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the options with which somebody repeats the run of one case, each a name and a value.

    They hold for whoever stands where this run was started; in CI, where nobody stands, for the root of a
    checkout. Paths outside of it are another machine's then, and left out.
    """
    stand, is_ci = _stand(environ)
    work = (Path.cwd() / folder).resolve()
    paths = (
        ("-C", "" if work == stand else _path(Path.cwd() / folder, stand, folder, is_ci=is_ci)),
        ("-c", thresholds and _path(work / thresholds, work, thresholds, is_ci=is_ci)),
        ("--python", wish.python and _python(wish.python, is_ci=is_ci)),
    )
    said = (
        ("--format", wish.format),
        ("--adk-version", wish.adk_version),
        ("--judge", wish.judge),
        ("--simulated-user", wish.simulated_user),
        ("--timeout", None if wish.timeout is None else f"{wish.timeout:g}"),
        ("--setup", None if wish.setup is None or "\n" in wish.setup.strip() else wish.setup.strip()),
        *(("--env", name) for name in wish.env),
        ("--out", _again(_path(work / out, work, out, is_ci=is_ci))),
    )
    return tuple(_given((*paths, *said)))


def _given(pairs: tuple[tuple[str, str | None], ...]) -> Iterator[str]:
    for option, value in pairs:
        if value:
            yield from (option, value)


def _stand(environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the folder that a reader stands in, and whether that is the root of a checkout in CI."""
    here, root = Path.cwd().resolve(), environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR")
    if root and here.is_relative_to(Path(root).resolve()):
        return Path(root).resolve(), True
    return here, False


def _path(path: Path, base: Path, as_typed: str, *, is_ci: bool) -> str:
    """Return a path as it is typed in `base`; "" for one that other machines do not have."""
    found = path.resolve()
    if found.is_relative_to(base):
        return found.relative_to(base).as_posix()
    return "" if is_ci and Path(as_typed).is_absolute() else as_typed


def _python(as_typed: str, *, is_ci: bool) -> str:
    # Never resolved: the interpreter of a virtual environment is a link to one that knows none of it.
    return "" if is_ci and Path(as_typed).is_absolute() else as_typed


def _again(out: str) -> str:
    return out if not out or Path(out).name == AGAIN else f"{out}/{AGAIN}"
