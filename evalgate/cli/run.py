"""The command `run`: its options, and the command lines that repeat or resume a run."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from evalgate.cli.help_pages import SectionedCommand
from evalgate.cli.options import (
    DEFAULT_RESULTS,
    add_destination_options,
    add_options,
    add_plan_options,
    add_posting_options,
    build_overrides,
    detailed_results,
    html_page,
    kept_results,
    list_masks,
    owner_reports,
    pop_destinations,
    pop_post_options,
    pop_requested_reports,
    project_directory,
    reports_folder,
    require_nonempty,
)
from evalgate.cli.project_folder import FILE, TextType
from evalgate.cli.redacted_output import build_redactor
from evalgate.system.signals import InterruptHandler, ignore_end_signals

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from evalgate.ci.posting import PostOptions
    from evalgate.config.cli_overrides import Overrides, SelectionOptions
    from evalgate.core.types import Record
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.pipeline import OpenCheckpoints, RunOptions
    from evalgate.runner.plan import Plan
    from evalgate.runner.publish import Publisher


_Command = TypeVar("_Command", bound=Callable[..., object])


# --- the options that select cases --------------------------------------------------------------------------


class TagParamType(TextType):
    """A tag of cases, or `!` followed by a tag."""

    name = "tag"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Return the tags in the last results that begin with the typed text."""
        from evalgate.cli.shell_completion import complete_tag

        del ctx, param
        return complete_tag(incomplete, DEFAULT_RESULTS)


_FILTERS = (
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

_CHOICES = (
    click.option(
        "--failed", is_flag=True, help="Run the cases that did not pass in the last results of --out."
    ),
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run N cases, drawn from each eval set and combination of tags. Such a run has no verdict.",
    ),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the sample.  [default: 0]"),
    click.option(
        "--affected",
        is_flag=True,
        help="Run only the suites that the change affects; with none the verdict is `skipped`.",
    ),
    click.option(
        "--base",
        metavar="REF",
        callback=require_nonempty,
        help="Commit that --affected compares with, such as origin/main.  [default: target branch of the "
        "pull request]",
    ),
    click.option(
        "--watch",
        is_flag=True,
        help="Run again whenever a file changes: the edited cases of an eval set, or after other changes the "
        "cases that failed, else all.",
    ),
)


def add_case_filters(command: _Command) -> _Command:
    """Add `--tag` and `-k` to a command. These options select cases."""
    return add_options(command, _FILTERS)


def add_selection_options(command: _Command) -> _Command:
    """Add all options that select cases to a command."""
    for option in reversed(_CHOICES):
        command = option(command)
    return add_case_filters(command)


def pop_case_filters(options: dict[str, Any]) -> "SelectionOptions":
    """Remove `--tag` and `-k` from `options`, and return their values."""
    from evalgate.config.cli_overrides import SelectionOptions

    return SelectionOptions(tags=options.pop("tags"), keyword=options.pop("keyword"))


def pop_selection_options(
    options: dict[str, Any], out: str, *, is_shard: bool, is_resumed: bool
) -> "SelectionOptions":
    """Remove the options that select cases from `options`, and return their values.

    `out` is the folder of the reports. `--failed` looks there for the last results.

    Raises:
        UsageError: options contradict each other.
    """
    from dataclasses import replace

    failed, sample, seed = options.pop("failed"), options.pop("sample"), options.pop("seed")
    affected, base = options.pop("affected"), options.pop("base")
    if failed and is_resumed:
        raise click.UsageError("--failed cannot resume: --failed alone runs what did not pass yet.")
    if is_shard and (failed or sample is not None or affected):
        name = "--failed" if failed else "--affected" if affected else "--sample"
        raise click.UsageError(f"{name} cannot be combined with --shard.")
    if base is not None and not affected:
        raise click.UsageError("--base needs --affected.")
    if seed is not None and sample is None:
        raise click.UsageError("--seed needs --sample.")
    return replace(
        pop_case_filters(options),
        failed=f"{out}/results.json" if failed else None,
        sample=sample,
        seed=seed or 0,
        affected=(base or "") if affected else None,
    )


# --- the command --------------------------------------------------------------------------------------------


def _parse_shard(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    index, _, count = value.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= 10_000:
        return int(index), int(count)
    raise click.BadParameter(f"{value!r} must be I/N, as 3/8", param=parameter)


@click.command(cls=SectionedCommand)
@click.argument("eval_sets", nargs=-1, type=FILE, metavar="[EVAL_SETS]...")
@add_plan_options
@add_selection_options
@click.option("--resume", is_flag=True, help="Continue an interrupted run: only what is missing is run.")
@click.option(
    "--shard",
    metavar="I/N",
    callback=_parse_shard,
    help="Run part I of N; `evalgate merge` combines the parts.",
)
@add_posting_options
@add_destination_options
@html_page
@detailed_results
@kept_results
@owner_reports
@reports_folder
@project_directory
@click.make_pass_decorator(InterruptHandler, ensure=True)
def run(interrupts: InterruptHandler, /, watch: bool, **options: Any) -> int:
    """Run the eval sets against the agent and print a verdict.

    EVAL_SETS are files, folders or globs; `file.evalset.json:case_a,case_b` selects cases. If there is
    none, the thresholds file names them.
    """
    if watch:
        from evalgate.cli.watch import watch_run

        return watch_run(click.get_current_context(), options)
    return _run_once(interrupts, **options)


def _run_once(
    interrupts: InterruptHandler,
    eval_sets: tuple[str, ...],
    resume: bool,
    shard: tuple[int, int] | None,
    out: str,
    working_directory: str,
    **options: Any,
) -> int:
    """Run the cases once, publish the record and return the exit code."""
    from evalgate.runner.pipeline import OpenCheckpoints, RunOptions
    from evalgate.runner.plan import build_plan
    from evalgate.runner.publish import Publisher

    # Every `pop` removes options that are no fields of `Overrides`, which gets the rest of `options`.
    thresholds_file, folder = options.pop("thresholds"), Path(working_directory)
    post_options = pop_post_options(options)
    publishing = {name: options.pop(name) for name in ("keep_results", "details")}
    publishing["requested"] = pop_requested_reports(options)
    redactor = build_redactor()
    with (
        # `evalgate.__main__` has installed the handler already, unless another program calls the command.
        interrupts.handle_signals(),
        post_on_failure(post_options, redactor),
        redactor.redact_errors(),  # inside: an error is redacted before it is posted
        OpenCheckpoints() as checkpoints,
    ):
        redactor.learn_masks(options["mask"])  # before anything that may fail
        publishing["destinations"] = pop_destinations(options)
        out = choose_out(click.get_current_context(), folder, out, options["agent"])
        selection_options = pop_selection_options(options, out, is_shard=shard is not None, is_resumed=resume)
        overrides = build_overrides(eval_sets, options, selection_options)
        redactor.learn_masks(list_masks(overrides, publishing["destinations"]))
        plan = build_plan(overrides, thresholds_file=thresholds_file, folder=folder, environ=os.environ)
        _refuse_overwriting_recordings(plan, plan.workspace.folder / out)
        streams = (sys.stdout, sys.stderr)
        publisher = Publisher(plan.workspace, out, os.environ, *streams, redactor, post_options, **publishing)
        run_options = RunOptions(shard, plan.workspace.folder / out, resume, redactor, checkpoints)
        # Before the run, because the agent may remove the folder that this looks at.
        repro_options = build_repro_options(working_directory, thresholds_file, out, overrides, os.environ)
        record = _run_with_progress(plan, publisher, interrupts, run_options, repro_options)
        code = _publish_record(publisher, record, checkpoints)
    if selection_options.failed is None:  # `--failed` alone runs what is left
        suggest_resume(publisher, plan.workspace.folder / out)
    return code


def _refuse_overwriting_recordings(plan: "Plan", reports: Path) -> None:
    """Raise InvalidInputError if the results would overwrite a recording that answers calls of tools."""
    if plan.recordings:
        from evalgate.runner.tool_mocks import refuse_overwriting

        refuse_overwriting(plan.recordings, reports / "results.json")


def _run_with_progress(
    plan: "Plan",
    publisher: "Publisher",
    interrupts: InterruptHandler,
    run_options: "RunOptions",
    repro_options: tuple[str, ...],
) -> "Record":
    """Run the plan with a progress display. Return the record with `repro_options` as its options."""
    from dataclasses import replace

    from evalgate.runner.evaluation import RunHooks
    from evalgate.runner.pipeline import run_gate

    def begin_reports() -> None:
        # From here on there is a record in any case; `cancel_on_signals` handles signals during the run.
        interrupts.ignores_signals = True
        # Not at the start: a run that fails before this leaves the reports of the last one as they are.
        publisher.clear_previous_reports()

    hooks = RunHooks(
        tell=publisher.print_notice, while_starting=publisher.preload_reporting, on_begin=begin_reports
    )
    progress = publisher.build_progress()
    try:
        record = run_gate(plan, progress, run_options, hooks)
        return replace(record, options=repro_options)
    finally:
        progress.close()


def _publish_record(publisher: "Publisher", record: "Record", checkpoints: "OpenCheckpoints") -> int:
    """Publish the record and return the exit code. The journal is kept if no record could be written."""
    code = publisher.publish(record)
    ignore_end_signals()  # the reports state the exit code, and a signal would change it
    if publisher.has_record:
        checkpoints.mark_published()
    return code


def suggest_resume(publisher: "Publisher", reports: Path) -> None:
    """Print the command that resumes the run, if the run left a journal in the folder `reports`."""
    from evalgate.runner.checkpoint.journal import FILE_NAME

    if (reports / FILE_NAME).is_file() and (again := build_resume_command(sys.argv[1:])):
        publisher.print_notice(f"Continue this run with: {again}")


@contextmanager
def post_on_failure(posting: "PostOptions | None", redactor: "LiveRedactor") -> Iterator[None]:
    """Print an error that the block raises, and post to the pull request that there is no verdict.

    Nothing is printed or posted here if `posting` is None, or after an interruption: a newer run usually
    follows. The error is then raised as it is.

    Raises:
        PrintedError: the error was printed, and posted if possible.
    """
    from evalgate.core.errors import RunInterruptedError

    try:
        yield
    except RunInterruptedError:
        raise
    except Exception as error:
        if posting is None:
            raise
        from evalgate.cli.error_output import print_and_post_error

        raise print_and_post_error(error, posting, redactor) from error


# --- the command that repeats or resumes a run --------------------------------------------------------------

AGAIN = "again"
"""Subfolder of the reports for a repeated case, so that the gate's own reports are kept."""


def choose_out(context: click.Context, folder: Path, out: str, agent: str | None) -> str:
    """Return the folder for the reports. It is `out/again` for a replay of a recording in `out`.

    A replay must not overwrite the reports of the run that it repeats. A typed `--out` is not changed.
    """
    kind, _, recording = (agent or "").partition(":")
    if kind != "replay" or context.get_parameter_source("out") is not ParameterSource.DEFAULT:
        return out
    is_inside = (folder / recording).resolve().is_relative_to((folder / out).resolve())
    return _append_again(out) if is_inside else out


def build_resume_command(arguments: Sequence[str]) -> str:
    """Build the command line that resumes an interrupted run.

    Return "" if no person typed the command. The GitHub action, for example, has an input `resume`.
    """
    if arguments[:1] not in (["run"], ["matrix"]):
        return ""
    again = () if "--resume" in arguments else ("--resume",)
    # `--resume` goes before `--`, because nothing after `--` is an option.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return f"evalgate {shlex.join([*arguments[:end], *again, *arguments[end:]])}"


def build_repro_options(
    folder: str, thresholds_file: str | None, out: str, overrides: "Overrides", environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Build the options of a command line that repeats the run of one case.

    `-C` is relative to the current folder, or in CI to the root of the checkout. `-c` and `--out` are
    relative to `-C`. In CI, absolute paths that only the CI machine has are left out: those outside of these
    folders, and that of `--python`.
    """
    reader_folder, is_ci = _find_reader_folder(environ)
    work = (Path.cwd() / folder).resolve()
    # Never resolved: the interpreter of a virtual environment is a link to one without its packages.
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
    """Return the folder in which a reader of reports types commands, and True if it is a CI checkout."""
    here, root = Path.cwd().resolve(), environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR")
    if root and here.is_relative_to(Path(root).resolve()):
        return Path(root).resolve(), True
    return here, False


def _format_typed_path(path: Path, folder: Path, as_typed: str, *, is_ci: bool) -> str:
    """Return a path as typed in `folder`, or "" for a path that exists only on the CI machine."""
    found = path.resolve()
    if found.is_relative_to(folder):
        return found.relative_to(folder).as_posix()
    return "" if is_ci and Path(as_typed).is_absolute() else as_typed


def _append_again(out: str) -> str:
    return out if not out or Path(out).name == AGAIN else f"{out}/{AGAIN}"
