"""`evalgate accept`: write the agent's behaviour as expectations into the files of eval sets."""

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import click

from evalgate.config.cli_overrides import Overrides
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.failures.call_divergences import compares_responses
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import disable_commands, strip_invisible, to_log_line
from evalgate.core.types import CaseKey, CaseResult, EvalCase, JsonObject, Record, RunMetric
from evalgate.datasets.acceptance import (
    AcceptedParts,
    Part,
    accept_run,
    build_alternative,
    choose_run,
    is_never_accepted,
)
from evalgate.datasets.case_notes_edits import change_notes, set_note
from evalgate.datasets.edit_undo import FileChange, UndoableEdits
from evalgate.datasets.eval_set_file import EditedFile, EvalSetFile, build_diff, edit_eval_set, open_eval_set
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.datasets.raw_edits import is_same_data
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.validation_errors import list_case_names
from evalgate.redaction.redactor import Redactor
from evalgate.reporting.repro_command import iter_option_pairs
from evalgate.runner.rescoring import score_accepted_run
from evalgate.runner.suites import Suite
from evalgate.runner.validation import load_suites
from evalgate.system.git import read_commit


@frozen
class AcceptOptions:
    """Options of `evalgate accept`, named as on the command line."""

    cases: tuple[str, ...]
    reason: str
    results: str
    turn: int | None
    only: Part | None
    alternative: bool
    run: int | None
    protected: bool
    yes: bool
    dry_run: bool
    thresholds: str | None

    @property
    def accepted(self) -> AcceptedParts:
        """Return the values of `--run`, `--turn` and `--only`, which limit what is accepted of each case."""
        return AcceptedParts(self.run, self.turn, self.only)


def accept_cases(options: AcceptOptions, folder: Path) -> int:
    """Print the changes of the eval sets, ask for confirmation, and save the changes.

    With `--dry-run`, the changes are only printed. With `--yes`, nothing is asked. Return exit code 1 if the
    user declines, otherwise 0.

    Raises:
        InvalidInputError: a case cannot be accepted, an option or a file is invalid, or there is no terminal
            to ask on. Nothing is saved then. The error has a sentence for each case that cannot be accepted.
    """
    redactor = Redactor.from_environment(os.environ)
    if redactor.redact_text(options.reason) != options.reason:
        raise InvalidInputError("the reason seems to hold a secret, and would be committed: leave it out")
    if not any(character.isalnum() for character in options.reason):
        raise InvalidInputError("--reason: say why the new behaviour is right")
    record = read_record(folder / options.results, options.results)
    chosen = _select_cases(record, options.cases)
    changes, accepted = _build_changes(chosen, record, options, folder)
    for change in changes:
        diff = build_diff(change.before or b"", change.after or b"", change.shown_as)
        click.echo(disable_commands(strip_invisible(redactor.redact_text(diff))), nl=False)
    for sentence in _iter_remaining_failures(accepted, options.only):
        click.echo(to_log_line(redactor.redact_text(sentence)), err=True)
    if options.dry_run:
        return 0
    if not options.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise InvalidInputError("not a terminal, so nothing was saved: `--yes` saves without asking")
        if not click.confirm(f"Accept {pluralize(len(chosen), 'case')}?", default=False):
            click.echo("Nothing was saved.")
            return 1
    UndoableEdits().save_changes(changes[0].path, changes)
    click.echo(f"Accepted {pluralize(len(chosen), 'case')}.")
    return 0


def _select_cases(record: Record, patterns: Sequence[str]) -> list[CaseResult]:
    """Return the cases that the patterns name; a glob selects only failed cases.

    Raises:
        InvalidInputError: a pattern selects no case; the error has a sentence for each such pattern.
    """
    names = {case.key: list_case_names(case.eval_set_id, case.path, case.eval_id) for case in record.cases}
    found = dict[CaseKey, CaseResult]()
    problems = list[Problem]()
    for pattern in patterns:
        named = [case for case in record.cases if pattern in names[case.key]]
        globbed = [
            case for case in record.cases if any(fnmatchcase(name, pattern) for name in names[case.key])
        ]
        chosen = named or [case for case in globbed if case.status == "failed"]
        if not chosen:
            why = "is called so in the results"
            if globbed:
                is_done = all(case.status == "passed" for case in globbed)
                why = "passed, and none failed" if is_done else "found, but none failed with an answer"
            many = pluralize(len(globbed), "case") if globbed else "no case"
            hint = "" if globbed else did_you_mean(pattern, [case.eval_id for case in record.cases])
            problems.append(Problem("", 0, 0, f"{pattern!r}: {many} {why}.{hint}"))
        found |= {case.key: case for case in chosen}
    if problems:
        raise InvalidInputError(problems)
    return list(found.values())


def _build_changes(
    chosen: Sequence[CaseResult], record: Record, options: AcceptOptions, folder: Path
) -> "tuple[list[FileChange], list[_AcceptedCase]]":
    """Build the changes to eval sets and their notes files (`.cases.yaml`) that accept the chosen cases.

    Return the changes and the accepted cases.

    Raises:
        InvalidInputError: a case cannot be accepted; the error has a sentence for each such case.
    """
    if missing := [case.eval_id for case in chosen if not case.path]:
        raise InvalidInputError(f"{missing[0]!r} is in no file: its eval set was made by a program")
    paths = tuple(dict.fromkeys(case.path for case in chosen))
    known = {
        (suite.eval_set.eval_set_id, case.eval_id): _KnownCase(suite, case, fingerprint)
        for suite in _load_suites(_build_overrides(paths, record), options, folder)
        for case, fingerprint in zip(suite.eval_set.cases, suite.fingerprints, strict=True)
    }
    problems = list[Problem]()
    changes = list[FileChange]()
    every = list[_AcceptedCase]()
    for path in paths:
        file = open_eval_set(folder / path, path)
        accepted = list[_AcceptedCase]()
        for result in (case for case in chosen if case.path == path):
            try:
                now = _check_case(result, known.get(result.key), record, options)
                accepted.append(_accept_case(file, result, now, options))
            except InvalidInputError as error:
                problems += error.problems
        if not problems:
            try:
                changes += _change_files(file, accepted, record, options)
            except InvalidInputError as error:
                problems += error.problems
        every += accepted
    if problems:
        raise InvalidInputError(problems)
    return changes, every


def _load_suites(overrides: Overrides, options: AcceptOptions, folder: Path) -> tuple[Suite, ...]:
    """Load the suites with metrics; without metrics if these cannot be built here, for lack of a judge's key.

    Raises:
        InvalidInputError: a file has a problem.
    """
    try:
        return load_suites(overrides, thresholds_file=options.thresholds, folder=folder, scores=True)
    except InvalidInputError as error:
        found = load_suites(overrides, thresholds_file=options.thresholds, folder=folder)
        why = to_log_line(Redactor.from_environment(os.environ).redact_text(error.problems[0].message), 300)
        click.echo(f"Not checked whether the cases pass now, as metrics cannot be built: {why}", err=True)
        return found


def _build_overrides(paths: tuple[str, ...], record: Record) -> Overrides:
    """Return the options with which the eval sets `paths` are read as in the recorded run.

    `--format`, `--initial-session` and `--live-tools` are taken from the record.
    """
    options = dict(iter_option_pairs(record.options))
    return Overrides(
        eval_sets=paths,
        format=options.get("--format"),
        initial_session=options.get("--initial-session"),
        live_tools="--live-tools" in record.options,
    )


@frozen
class _KnownCase:
    """A case as it is now, with its suite and its hash."""

    suite: Suite
    case: EvalCase
    fingerprint: str


@frozen
class _AcceptedCase:
    result: CaseResult
    case: EvalCase
    """The case with the agent's behaviour as its expectation."""
    alternative: JsonObject | None
    """With `--alternative`: an entry for the notes file that also allows this behaviour. Otherwise None."""
    metrics: Sequence[RunMetric]
    """Scores of the accepted run with the new expectation."""


def _accept_case(
    file: EvalSetFile, result: CaseResult, now: _KnownCase, options: AcceptOptions
) -> _AcceptedCase:
    case, run = file.find_case(result.eval_id), choose_run(result, options.accepted)
    accepted = accept_run(case, run, options.accepted)
    if accepted is case:
        lacks_response = _lacks_response(result, options.only) and any(
            metric.gating_status == "failed" and compares_responses(metric.name) for metric in result.metrics
        )
        advice = ", but no response: `--only response` accepts that" if lacks_response else ""
        raise InvalidInputError(f"{case.eval_id!r} expects already what the agent did{advice}")
    return _AcceptedCase(
        result,
        accepted,
        build_alternative(case, run, options.accepted) if options.alternative else None,
        asyncio.run(score_accepted_run(now.suite, accepted, run)),
    )


def _check_case(
    result: CaseResult, now: _KnownCase | None, record: Record, options: AcceptOptions
) -> _KnownCase:
    """Return `now`, the case as it is in the file now; None: the file does not have it any more.

    Raises:
        InvalidInputError: the case changed since the run, or is protected and `--protected` is not given.
    """
    if now is None or now.fingerprint != result.fingerprint:
        given = dict(iter_option_pairs(record.options))
        thresholds = given.get("--thresholds", given.get("-c"))
        advice = "run it again, and accept that"
        if thresholds and thresholds != options.thresholds:
            advice = f"the run had another thresholds file, so add `--thresholds {shlex.quote(thresholds)}`"
        elif options.thresholds and not thresholds:
            advice = f"the run had no `--thresholds`: leave it out, or {advice}"
        raise InvalidInputError(f"{result.eval_id!r} is not as it was in {options.results}: {advice}")
    is_protected = now.suite.get_case_policy(now.case).protected or result.protected
    if is_protected and not options.protected:
        raise InvalidInputError(f"{result.eval_id!r} is protected: `--protected` accepts it all the same")
    return now


def _change_files(
    file: EvalSetFile,
    accepted: Sequence[_AcceptedCase],
    record: Record,
    options: AcceptOptions,
) -> list[FileChange]:
    """Return the changes to an eval set and its notes file; with `--alternative`, only to the notes file.

    Raises:
        InvalidInputError: the notes have the alternative already, or a file cannot be changed.
    """
    notes_path = file.path.with_name(build_notes_name(file.path.name))
    shown_as = str(Path(file.shown_as).with_name(notes_path.name))
    kept = {
        "reason": options.reason,
        "when": datetime.now(UTC).date(),
        "commit": (read_commit(file.path.parent, {}) or "")[:12],
        "run": record.created_at,
    }

    def edit(text: str) -> str:
        problems = list[Problem]()
        for each in accepted:
            name = each.case.eval_id
            note = {key: value for key, value in kept.items() if value}
            text = set_note(text, name, ("accepted",), note, shown_as, file.path.name)
            if each.alternative is not None:
                known = _read_alternatives(text, name, shown_as)
                if any(is_same_data(old, each.alternative) for old in known):
                    message = f"{name!r} has an alternative already that is what the agent did"
                    problems.append(Problem("", 0, 0, message))
                values = [*known, each.alternative]
                text = set_note(text, name, ("alternatives",), values, shown_as, file.path.name)
        if problems:
            raise InvalidInputError(problems)
        return text

    notes = change_notes(notes_path, shown_as, edit)
    # With `--alternative`, the eval set keeps its expectation.
    if options.alternative:
        return [notes]
    changed = {each.case.eval_id: each.case for each in accepted}
    edited = _edit_file(file, [changed.get(case.eval_id, case) for case in file.eval_set.cases])
    return [FileChange(file.path, file.shown_as, file.data, edited.data), notes]


def _edit_file(file: EvalSetFile, cases: Sequence[EvalCase]) -> EditedFile:
    try:
        return edit_eval_set(file, cases)
    except InvalidInputError as error:
        # Without the positions, which are those of the file as it would have become.
        raise InvalidInputError(
            Problem(each.file, 0, 0, f"cannot be changed, so nothing was saved: {each.message}")
            for each in error.problems
        ) from None


def _read_alternatives(text: str, name: str, shown_as: str) -> Sequence[object]:
    value = compose_yaml(text, shown_as)[1]
    for key in ("cases", name, "alternatives"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else ()


def _iter_remaining_failures(accepted: Sequence[_AcceptedCase], only: Part | None) -> Iterator[str]:
    """Yield a sentence for each failed metric that is certain to fail again with the new expectation.

    `only` is the value of `--only`; None if everything is accepted.
    """
    for each in accepted:
        case = each.result
        failing = {metric.name: metric.reason for metric in each.metrics if metric.gating_status == "failed"}
        lacks_response = _lacks_response(case, only)
        for metric in case.metrics:
            if metric.gating_status != "failed":
                continue
            if is_never_accepted(metric.name):
                yield (
                    f"{case.eval_id}: `{metric.name}` still fails: it is a rule of its own. {metric.reason}"
                )
            elif lacks_response and compares_responses(metric.name):
                yield (
                    f"{case.eval_id}: `{metric.name}` still fails: the case expects no response, so none was "
                    "accepted. Run it again, and accept that with `--only response`."
                )
            elif metric.name in failing:
                yield f"{case.eval_id}: `{metric.name}` still fails: {failing[metric.name]}"


def _lacks_response(case: CaseResult, only: Part | None) -> bool:
    """Return True if a turn has no expected response, so that accepting the case adds none.

    Return False if `only`, the value of `--only`, is given: the user has then chosen what to accept.
    """
    expected = [turn.expected for run in case.runs for turn in run.turns if turn.expected is not None]
    return any(reply.response is None for reply in expected) and only is None
