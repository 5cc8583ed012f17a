"""`evalgate backtest`: list the stored verdicts that the current thresholds file would change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.baselines.history import select_earlier_runs
from evalgate.config.loader import load_thresholds_or_default
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.core.types import Baseline, CasePolicy, EvalCase, EvalSet, Record, Verdict
from evalgate.runner.baseline_targets import find_baseline, open_named_store
from evalgate.runner.case_policies import resolve_case_policies
from evalgate.runner.regating import GateRules, infer_runs_setting, regate_record
from evalgate.runner.result_loading import load_checked_record, load_stored_baseline
from evalgate.system.workspace import resolve_workspace


@frozen
class BacktestResult:
    """A stored result with its old verdict and the verdict that the current thresholds file gives."""

    path: str
    created_at: str
    then: Verdict
    now: Verdict
    unscored_metrics: tuple[str, ...]
    """Metrics that the thresholds file names, and for which the result has no score."""
    missing_baseline: str = ""
    """Name of the baseline if it does not exist; else ""."""
    left_out: tuple[str, ...] = ()
    """Sentences about comparisons that decided the stored verdict, and that are not made again."""

    @property
    def flips(self) -> bool:
        """Return True if the current verdict differs from the stored one in status or exit code."""
        return (self.then.status, self.then.exit_code) != (self.now.status, self.now.exit_code)


def run_backtest(
    results: Sequence[str], *, thresholds_file: str | None, baseline: str | None, folder: Path
) -> list[BacktestResult]:
    """Decide the verdict of each stored result again, with the current thresholds file.

    The results are returned in the order of their runs, the oldest first. Each is compared with the baseline
    runs that are older than the result. If `baseline` is None, it is `gate.baseline`, or the default baseline
    if `gate.baseline` is not set.

    An interrupted run keeps its verdict. A result without a verdict still has none if its cases do not show
    the reason, for example if the agent could not be reached. Control runs (runs of the base commit's agent)
    and the older baseline `gate.anchor` are ignored.

    Raises:
        InvalidInputError: a file cannot be read, `baseline` does not exist, or there are no criteria.
    """
    workspace = resolve_workspace(folder)
    thresholds = load_thresholds_or_default(workspace.folder, thresholds_file)
    if not thresholds.criteria:
        raise InvalidInputError("no criteria: name a thresholds file with --thresholds")
    path = baseline or thresholds.config.gate.baseline or find_baseline(workspace)
    if baseline:
        stored: Baseline | None = load_stored_baseline(workspace, baseline)
    else:
        stored = open_named_store(workspace, path).read() if path else None
    records = [(name, load_checked_record(workspace.folder, name)) for name in results]
    records.sort(key=lambda pair: pair[1].created_at)
    return [_replay_result(name, record, thresholds, stored, path) for name, record in records]


def _replay_result(
    name: str, record: Record, thresholds: Thresholds, stored: Baseline | None, path: str | None
) -> BacktestResult:
    criteria = {criterion.metric: criterion for criterion in thresholds.effective_criteria}
    gate = thresholds.config.gate.model_copy(update={"baseline": path})
    then = select_earlier_runs(stored, record.created_at) if stored else None
    gate_rules = GateRules(gate, infer_runs_setting(record), criteria, _build_policies(record, thresholds))
    now = (
        regate_record(record, gate_rules, then).verdict
        if record.verdict.exit_code != ExitCode.INTERRUPTED
        else record.verdict
    )
    known = {metric.name for case in record.cases for metric in case.metrics}
    return BacktestResult(
        name,
        record.created_at,
        record.verdict,
        now,
        tuple(metric for metric in criteria if metric not in known),
        path if path and stored is None else "",
        tuple(_describe_left_out(record, thresholds.config.gate)),
    )


def _describe_left_out(record: Record, gate: GateConfig) -> Iterator[str]:
    fell = [each.name for each in record.anchor.metrics if each.outcome == "fell"] if record.anchor else []
    if fell and gate.anchor is not None:
        yield f"not compared again: `gate.anchor` closed this gate ({', '.join(fell)})"
    if record.control is not None:
        yield "not compared again: control runs took part in this verdict"


def _build_policies(record: Record, thresholds: Thresholds) -> Mapping[tuple[str, str], CasePolicy]:
    """Return the policy (weight, thresholds and the like) of each case of a record by (eval_set_id, eval_id).

    Policies come from the section `cases` of the thresholds file. Cases that were in quarantine when the
    record was made stay so.
    """
    sets: dict[tuple[str, str], list[EvalCase]] = {}
    for case in record.cases:
        eval_case = EvalCase(case.eval_id, line=case.line, tags=case.tags)
        sets.setdefault((case.eval_set_id, case.path), []).append(eval_case)
    eval_sets = [EvalSet(name, tuple(cases), path) for (name, path), cases in sets.items()]
    # `is_part`: rules for cases that the result lacks are ignored.
    found = dict(resolve_case_policies(thresholds, thresholds.config.cases, eval_sets, is_part=True))
    for case in record.cases:
        if case.quarantine is not None:
            key = case.key
            found[key] = replace(found.get(key, CasePolicy()), quarantine=case.quarantine)
    return found


def format_backtest(found: Sequence[BacktestResult]) -> str:
    """Format the report as text: a line for each result, then the number of changed verdicts.

    Below a result come the new reasons if its verdict changed, and the metrics of the thresholds file that
    have no score. Below all results comes a note if the baseline does not exist.
    """
    return "".join(f"{line}\n" for line in _format_lines(found))


def _format_lines(found: Sequence[BacktestResult]) -> Iterator[str]:
    for each in found:
        verdicts = (
            f"{each.then.status} -> {each.now.status}" if each.flips else f"{each.now.status}, as it was"
        )
        yield f"{to_log_line(each.path, 120)} ({to_log_line(each.created_at[:16], 20)}): {verdicts}"
        if each.flips:
            yield from (f"  {to_log_line(reason, 500)}" for reason in each.now.reasons)
            yield from (f"  {to_log_line(sentence, 500)}" for sentence in each.left_out)
        if each.unscored_metrics:
            metrics = to_log_line(", ".join(each.unscored_metrics), 300)
            yield f"  not evaluated: the file has no score of {metrics}"
    if lacking := next((each.missing_baseline for each in found if each.missing_baseline), ""):
        yield f"There is no baseline at {to_log_line(lacking, 300)}: absolute thresholds only."
    flips = sum(each.flips for each in found)
    doubtful = sum(bool(each.flips and each.left_out) for each in found)
    but = f"; for {doubtful:,} of them, not everything was compared again" if doubtful else ""
    yield f"{flips:,} of {pluralize(len(found), 'verdict')} would change{but}."
