"""`evalgate run --watch`: run cases again after each change of a file.

Files are polled, which works on every file system and with editors that replace files. Each run is a new
process, so that it reads the current code of the agent, plugins and settings.
"""

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from evalgate.cli.redacted_output import print_sentence
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import join_first, pluralize
from evalgate.core.types import CaseKey
from evalgate.system.files import is_virtual_environment

if TYPE_CHECKING:
    from evalgate.config.cli_overrides import Overrides

_POLL_S = 0.5
_SETTLED_S = 0.2
_IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules"})
_IGNORED_ENDINGS = (".pyc", ".pyo", "~", ".swp", ".tmp", ".log")
_NAMED = 3
_SELECTING = ("tags", "keyword", "failed", "sample", "seed", "affected", "base")

Snapshot: TypeAlias = Mapping[str, tuple[int, int, int]]
"""State of each file by its path: time of the last change in nanoseconds, size in bytes, and inode."""


@dataclass
class WatchedCases:
    """The cases that a command line selects, and the results of their newest runs."""

    fingerprints: dict[CaseKey, str] = field(default_factory=dict)
    patterns: dict[CaseKey, str] = field(default_factory=dict)
    """For each case, the pattern `FILE:CASE` that selects it on a command line."""
    failed: set[CaseKey] = field(default_factory=set)
    """Cases that did not pass in their newest run."""
    unrun: set[CaseKey] = field(default_factory=set)
    """Cases that have no results since they were added or edited."""

    def update_cases(
        self, fingerprints: Mapping[CaseKey, str], patterns: Mapping[CaseKey, str]
    ) -> set[CaseKey]:
        """Store the current cases. Return the cases that have not run since they were added or last edited.

        `patterns` has the pattern `FILE:CASE` of each case, which selects it on a command line.
        """
        edited = {key for key, value in fingerprints.items() if self.fingerprints.get(key) != value}
        self.fingerprints, self.patterns = dict(fingerprints), dict(patterns)
        self.failed &= self.fingerprints.keys()
        self.unrun = (self.unrun | edited) & self.fingerprints.keys()
        return set(self.unrun)

    def update_results(self, passed: Mapping[CaseKey, bool]) -> None:
        """Store the results of a run: True for each case that passed."""
        self.unrun -= passed.keys()
        self.failed -= passed.keys()
        self.failed |= {key for key, is_passed in passed.items() if not is_passed}

    def choose_cases(self, edited: Collection[CaseKey], *, is_code: bool) -> list[CaseKey]:
        """Return the cases to run after a change: the `edited` cases, and others if code changed.

        `is_code` is True if files other than eval sets changed. Then all cases that failed in their newest
        run are added. If no case failed, all cases are added.
        """
        wanted = set(edited) | (self.failed or set(self.fingerprints) if is_code else set())
        return [key for key in self.fingerprints if key in wanted]


@dataclass
class FileWatcher:
    """Poller of the files below a folder. Hidden files, reports and temporary files of tools are ignored."""

    root: Path
    reports: Path
    """Folder of the reports, which is left out."""
    further: tuple[Path, ...] = ()
    """Files outside of `root` that are watched, too."""

    def take_snapshot(self) -> Snapshot:
        """Return the time of the last change, the size and the inode of each watched file."""
        # Leave out files to which this command's output is redirected: each run would start another.
        own = set(_iter_output_files())
        states = _iter_states(self.root, self.reports, self.further)
        return {path: state for path, state in states if state[2] not in own}

    def wait_for_change(self, before: Snapshot) -> tuple[set[str], Snapshot]:
        """Wait until files differ from `before` and no more files change.

        Return the changed paths, and the snapshot that shows them.
        """
        while True:
            started = time.monotonic()
            now = self.take_snapshot()
            took = time.monotonic() - started
            if compare_snapshots(before, now):
                now = self._wait_until_settled(now)
                if changed := compare_snapshots(before, now):  # false if a file was made and removed at once
                    return changed, now
            time.sleep(max(_POLL_S, 5 * took))  # a large project may not keep a core busy

    def _wait_until_settled(self, now: Snapshot) -> Snapshot:
        """Wait until no more files change, and return the last snapshot. `now` is the current snapshot."""
        while True:
            time.sleep(_SETTLED_S)
            earlier, now = now, self.take_snapshot()
            if not compare_snapshots(earlier, now):
                return now


def compare_snapshots(before: Snapshot, after: Snapshot) -> set[str]:
    """Return the paths of files that were changed, added or removed between two snapshots."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def restore_states(after: Snapshot, before: Snapshot, paths: Collection[str]) -> Snapshot:
    """Return a copy of the snapshot `after` in which the files `paths` have their states from `before`.

    A file of `paths` that is not in `before` is removed from the copy. In a later comparison with the copy,
    the files `paths` count as changed if they differ from `before`.
    """
    earlier = {path: before[path] for path in paths if path in before}
    return {path: state for path, state in after.items() if path not in paths} | earlier


def _iter_states(
    root: Path, reports: Path, further: Iterable[Path]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _IGNORED_FOLDERS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    path = Path(entry.path)
                    if path != reports and not is_virtual_environment(path):
                        folders.append(path)
                elif not entry.name.endswith(_IGNORED_ENDINGS):
                    with suppress(OSError):
                        yield entry.path, _describe_state(entry.stat())
    for path in further:
        with suppress(OSError):
            yield str(path), _describe_state(path.stat())


def _iter_output_files() -> Iterator[int]:
    """Yield the inodes of the files to which standard output and standard error are redirected.

    The watcher leaves these files out, because every run changes them.
    """
    for descriptor in (1, 2):
        with suppress(OSError):
            yield os.fstat(descriptor).st_ino


def _describe_state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


# --- the loop -----------------------------------------------------------------------------------------------


def watch_run(context: click.Context, values: Mapping[str, Any]) -> int:
    """Run the cases of `evalgate run`, and run cases again after each change until the user presses Ctrl-C.

    `values` are the parameters of the command by name. If the user presses Ctrl-C between two runs, return 0.

    Raises:
        UsageError: an option cannot be combined with `--watch`.
        KeyboardInterrupt: the user pressed Ctrl-C during a run. The run has ended and has written its
            reports.
    """
    _reject_options(values)
    loop = _WatchLoop(context, values)
    try:
        loop.run_forever()
    except KeyboardInterrupt:
        if loop.child is None:
            print_sentence("Stopped watching.", err=True)
            return ExitCode.OPEN
        loop.stop_child()
        raise
    return ExitCode.OPEN


def _reject_options(values: Mapping[str, Any]) -> None:
    names = {
        "failed": "--failed",
        "sample": "--sample",
        "affected": "--affected",
        "resume": "--resume",
        "shard": "--shard",
    }
    names |= {"comment": "--comment", "check": "--check"}
    for name, option in names.items():
        if values[name]:
            raise click.UsageError(f"--watch cannot be combined with {option}.")


class _WatchLoop:
    def __init__(self, context: click.Context, values: Mapping[str, Any]) -> None:
        self._context, self._values = context, values
        self._folder = Path(values["working_directory"]).resolve()
        self._cases = WatchedCases()
        self._sets: set[str] = set()
        self._watcher = FileWatcher(self._folder, self._folder / values["out"])
        self._seen: Snapshot = {}
        """Snapshot of the files when the cases were last read. Files that differ from it have changed."""
        self.child: subprocess.Popen[bytes] | None = None

    def run_forever(self) -> None:
        """Run all cases once. Then, after each change, run the cases that `choose_cases` selects.

        Never return.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        self._seen = self._watcher.take_snapshot()
        wanted: Sequence[CaseKey] | None = () if self._load_cases() is None else None
        while True:
            if wanted is None or wanted:
                self._run_cases(wanted)
                self._note_changes()
            failed = len(self._cases.failed)
            state = f"{pluralize(failed, 'case')} did not pass. " if failed else ""
            print_sentence(f"{state}Waiting for a change; Ctrl-C ends.", err=True)
            changed, self._seen = self._watcher.wait_for_change(self._seen)
            print_sentence(f"Changed: {_format_names(changed, self._folder)}", err=True)
            wanted = self._choose_cases(changed)

    def stop_child(self) -> None:
        """End the current run as Ctrl-C does, and wait for its reports. Do nothing if no run is active."""
        if self.child is not None:
            with suppress(ProcessLookupError):
                self.child.terminate()
            self.child.wait()

    def _choose_cases(self, changed: Collection[str]) -> Sequence[CaseKey]:
        edited = self._load_cases()
        if edited is None:
            return ()
        return self._cases.choose_cases(edited, is_code=bool(set(changed) - self._sets))

    def _load_cases(self) -> set[CaseKey] | None:
        """Read the eval sets, and return the cases that have not run since they were added or edited.

        If the input is invalid, print the problems and return None.
        """
        from evalgate.datasets.eval_set_paths import build_notes_name
        from evalgate.runner.plan import build_plan

        try:
            plan = build_plan(
                build_watch_overrides(self._values),
                thresholds_file=self._values["thresholds"],
                folder=self._folder,
                environ=os.environ,
            )
        except InvalidInputError as error:
            print_sentence(str(error), err=True)
            return None
        fingerprints: dict[CaseKey, str] = {}
        patterns: dict[CaseKey, str] = {}
        for suite in plan.suites:
            path = (self._folder / suite.eval_set.path).resolve()
            self._sets |= {str(path), str(path.with_name(build_notes_name(path.name)))}
            for case, value in zip(suite.eval_set.cases, suite.fingerprints, strict=True):
                key = (suite.eval_set.eval_set_id, case.eval_id)
                checks = suite.eval_set.checks.sections.get(case.eval_id) if suite.eval_set.checks else None
                fingerprints[key] = value if checks is None else f"{value} {checks!r}"
                patterns[key] = f"{suite.eval_set.path}:{case.eval_id}"
        if self._watch_sets_outside():
            return self._load_cases()  # once more: an eval set may have changed before it was watched
        return self._cases.update_cases(fingerprints, patterns)

    def _watch_sets_outside(self) -> bool:
        """Watch eval sets outside of the working folder, too. Return True if one is new to the watcher.

        A newly watched eval set does not count as a changed file.
        """
        outside = {path for path in self._sets if not Path(path).is_relative_to(self._folder)}
        new = outside - set(map(str, self._watcher.further))
        self._watcher.further = tuple(sorted(map(Path, outside)))
        self._seen = restore_states(self._seen, self._watcher.take_snapshot(), new)
        return bool(new)

    def _run_cases(self, wanted: Sequence[CaseKey] | None) -> None:
        """Run the cases `wanted` in a new process, and read their results.

        If `wanted` is None, all cases are run that the command line selects.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C, which ended the process.
        """
        is_all = wanted is None or len(wanted) == len(self._cases.fingerprints)
        # The command line strips blanks around the id of a case: a case with such an id cannot be named.
        is_all = is_all or any(eval_id != eval_id.strip() for _, eval_id in wanted or ())
        skipped = {"watch"} if is_all else {"watch", *_SELECTING}
        options = list_typed_options(self._context, self._values, skipped)
        sets = self._values["eval_sets"] if is_all else [self._cases.patterns[key] for key in wanted or ()]
        before = self._find_results_state()
        self.child = subprocess.Popen([sys.executable, "-m", "evalgate", "run", *options, "--", *sets])
        if self.child.wait() == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        self.child = None
        if self._find_results_state() != before:  # else the run printed why it has none
            self._read_results()

    def _find_results_state(self) -> tuple[int, int, int] | None:
        with suppress(OSError):
            return _describe_state((self._watcher.reports / "results.json").stat())
        return None

    def _read_results(self) -> None:
        from evalgate.datasets.results_io import read_record

        with suppress(InvalidInputError):  # the run printed why there is none
            record = read_record(self._watcher.reports / "results.json", "results.json")
            self._cases.update_results({case.key: case.status == "passed" for case in record.cases})

    def _note_changes(self) -> None:
        """Let eval sets that changed during a run cause another run. Print the names of other changed files.

        Other changed files cause no run: the agent may have written them, and the runs would never end.
        """
        now = self._watcher.take_snapshot()
        changed = compare_snapshots(self._seen, now)
        if others := changed - self._sets:
            names = _format_names(others, self._folder)
            print_sentence(
                f"Changed while cases ran: {names}. Save once more to run again, if that was you.", err=True
            )
        # With its old state, a changed eval set causes a new run.
        self._seen = restore_states(now, self._seen, changed & self._sets)


def build_watch_overrides(values: Mapping[str, Any]) -> "Overrides":
    """Build overrides from the options of the command line.

    Of the options that select cases, only `--tag` and `-k` are used.
    """
    from evalgate.config.cli_overrides import Overrides, SelectionOptions

    known = {each.name for each in fields(Overrides)}
    given = {name: value for name, value in values.items() if name in known}
    selection = SelectionOptions(values["tags"], values["keyword"])
    return Overrides(**given, format=values["format_name"], selection_options=selection)


def list_typed_options(
    context: click.Context, values: Mapping[str, Any], skipped: Collection[str]
) -> list[str]:
    """Return the options that the user typed, as words of a command line.

    `values` has the values of the options by parameter name. `skipped` has the parameter names of options to
    leave out.
    """
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(parameter, click.Option) or not is_typed or name in skipped:
            continue
        option = max(parameter.opts, key=len)
        if parameter.is_flag:
            words.append(option)
        else:
            found = values[name] if parameter.multiple else (values[name],)
            words += [word for value in found for word in (option, str(value))]
    return words


def _format_names(paths: Collection[str], folder: Path) -> str:
    return join_first(sorted(os.path.relpath(path, folder) for path in paths), _NAMED)
