"""Where the runs of `evalgate aa` come from: a result, a baseline, or the agent itself."""

import os
from dataclasses import replace
from pathlib import Path

from evalgate.baseline import baseline_of
from evalgate.commands.aa import Against, against_itself
from evalgate.commands.compare import NOTHING, result_in, stored_in, thresholds_in
from evalgate.commands.keep import find_baseline
from evalgate.commands.rejudge import Rules, record_of
from evalgate.errors import InvalidInput, NoVerdict
from evalgate.model import Record, RunResult
from evalgate.overrides import Overrides
from evalgate.plan import workspace_at


def checked_against_itself(
    stored: str | None, *, rounds: int | None, repeats: int, thresholds: str | None, folder: Path
) -> Against:
    """Measure the thresholds file in `folder` on stored runs, or on `rounds` fresh ones.

    Raises:
        InvalidInput: there is nothing to draw from, or a file is wrong.
        NoVerdict: the agent could not be played.
    """
    workspace = workspace_at(folder)
    rules = thresholds_in(workspace.folder, thresholds)
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    gate = rules.config.gate.model_copy(update={"baseline": "the stored runs"})
    held = Rules(gate, rules.config.runs if rules.config.runs_given else "auto", criteria)
    if rounds is not None:
        record = _played(rounds, thresholds, folder)
        return against_itself(record.cases, baseline_of(record), held, repeats=repeats)
    path = stored or rules.config.gate.baseline or find_baseline(workspace) or _missing()
    if (found := result_in(workspace, path)) is not None:
        return against_itself(found.cases, baseline_of(found), held, repeats=repeats)
    baseline = stored_in(workspace, path)
    return against_itself(record_of(baseline, criteria, NOTHING).cases, baseline, held, repeats=repeats)


def _missing() -> str:
    raise InvalidInput(
        "nothing to draw from: name a results.json or a baseline, set `gate.baseline`, or say --rounds N"
    )


class _Nobody:
    """Watches the runs in silence."""

    def planned(self, runs: int) -> None:
        """Nothing to say."""

    def finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Nothing to say."""


def _played(rounds: int, thresholds: str | None, folder: Path) -> Record:
    from evalgate.pipeline import run_gate
    from evalgate.plan import make_plan

    said = Overrides(runs=rounds)
    plan = make_plan(said, thresholds=thresholds, folder=folder, environ=os.environ)
    record = run_gate(replace(plan, baseline=None), _Nobody())
    if record.verdict.exit_code in {3, 130}:
        raise NoVerdict(f"the agent could not be played: {record.verdict.reasons[0]}")
    return record
