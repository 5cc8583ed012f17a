"""`evalgate backtest`: which verdicts would have been others under a changed thresholds file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.baselines.history import before
from evalgate.cli.baseline import find_baseline, kept_at
from evalgate.cli.compare import checked_record, runs_of, stored_in, thresholds_in
from evalgate.cli.rejudge import Rules, rejudged
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInput
from evalgate.core.formatting import counted
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import log_line
from evalgate.core.types import Baseline, CasePolicy, EvalCase, EvalSet, Record, Verdict
from evalgate.runner.plan import workspace_at
from evalgate.runner.suites import policies
from evalgate.system.workspace import Workspace


@frozen
class Replayed:
    """One stored result under the thresholds file as it is now."""

    path: str
    created_at: str
    then: Verdict
    now: Verdict
    untold: tuple[str, ...]
    """Metrics of the thresholds file of which the result holds no score."""
    lacks: str = ""
    """The baseline that the thresholds file names, where it is not there."""

    @property
    def flips(self) -> bool:
        """Whether the gate would have said something else."""
        return (self.then.status, self.then.exit_code) != (self.now.status, self.now.exit_code)


def backtested(
    results: Sequence[str], *, thresholds: str | None, baseline: str | None, folder: Path
) -> list[Replayed]:
    """Every result, oldest first, under the thresholds file.

    Each is held against the runs of the baseline that are older than itself. Results that were interrupted
    or that lack an agent keep their verdict.

    Raises:
        InvalidInput: a file cannot be read, or there is no thresholds file.
    """
    workspace = workspace_at(folder)
    rules = thresholds_in(workspace.folder, thresholds)
    if not rules.criteria:
        raise InvalidInput("no criteria: name a thresholds file with --thresholds")
    path = baseline or rules.config.gate.baseline or find_baseline(workspace)
    stored = stored_in(workspace, baseline) if baseline else _kept(workspace, path)
    records = [(name, checked_record(workspace.folder, name)) for name in results]
    records.sort(key=lambda pair: pair[1].created_at)
    return [_replayed(name, record, rules, stored, path) for name, record in records]


def _replayed(
    name: str, record: Record, rules: Thresholds, stored: Baseline | None, path: str | None
) -> Replayed:
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    gate = rules.config.gate.model_copy(update={"baseline": path})
    then = before(stored, record.created_at) if stored else None
    held = Rules(gate, runs_of(record), criteria, _policies(record, rules))
    now = rejudged(record, held, then).verdict if record.verdict.exit_code != 130 else record.verdict
    known = {metric.name for case in record.cases for metric in case.metrics}
    return Replayed(
        name,
        record.created_at,
        record.verdict,
        now,
        tuple(metric for metric in criteria if metric not in known),
        path if path and stored is None else "",
    )


def _kept(workspace: Workspace, path: str | None) -> Baseline | None:
    return kept_at(workspace, path).read() if path else None


def _policies(record: Record, rules: Thresholds) -> Mapping[tuple[str, str], CasePolicy]:
    """What the file's `cases` say; rules of cases that a result lacks rest. Who rested then rests now."""
    sets: dict[tuple[str, str], list[EvalCase]] = {}
    for case in record.cases:
        asked = EvalCase(case.eval_id, line=case.line, tags=case.tags)
        sets.setdefault((case.eval_set_id, case.path), []).append(asked)
    eval_sets = [EvalSet(name, tuple(cases), path) for (name, path), cases in sets.items()]
    found = dict(policies(rules, rules.config.cases, eval_sets, is_part=True))
    for case in record.cases:
        if case.quarantine is not None:
            key = (case.eval_set_id, case.eval_id)
            found[key] = replace(found.get(key, CasePolicy()), quarantine=case.quarantine)
    return found


def as_text(found: Sequence[Replayed]) -> str:
    """One line a result, its reason below where the verdict flips, and the count."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Sequence[Replayed]) -> Iterator[str]:
    for each in found:
        verdicts = (
            f"{each.then.status} -> {each.now.status}" if each.flips else f"{each.now.status}, as it was"
        )
        yield f"{log_line(each.path, 120)} ({log_line(each.created_at[:16], 20)}): {verdicts}"
        if each.flips:
            yield from (f"  {log_line(reason, 500)}" for reason in each.now.reasons)
        if each.untold:
            yield f"  not told: it holds no score of {log_line(', '.join(each.untold), 300)}"
    if lacking := next((each.lacks for each in found if each.lacks), ""):
        yield f"There is no baseline at {log_line(lacking, 300)}: absolute thresholds only."
    flips = sum(each.flips for each in found)
    yield f"{flips:,} of {counted(len(found), 'verdict')} would be another."
