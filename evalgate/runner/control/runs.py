"""Run cases with the control (the base commit's agent) and the change's agent in turn, and compare both."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from evalgate.config.schema.gate import DEFAULT_BASELINE
from evalgate.core.errors import EvalgateError
from evalgate.core.formatting import format_money, pluralize, to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, ChecksEntry
from evalgate.core.types import Baseline, CaseKey, ControlComparison, RunResult
from evalgate.gating.comparison import compare_runs
from evalgate.gating.control_comparison import build_all_drifted, build_control_comparison
from evalgate.gating.control_suspects import (
    ControlSuspects,
    FreshRuns,
    find_suspects,
    split_fresh_runs,
)
from evalgate.gating.score_tables import build_row_name
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.gating.verdict import decide_verdict
from evalgate.llm.usage import RunUsage
from evalgate.runner.control.agent import AlternatingAgent, ControlAgent, build_control_in_thread
from evalgate.runner.control.base_commit import ControlSource, ControlUnavailableError
from evalgate.runner.execution import PlanExecution
from evalgate.runner.plan import Plan
from evalgate.runner.record_builder import (
    build_gate_input,
    compare_with_anchor_baseline,
    correct_by_control,
    score_and_decide,
)
from evalgate.runner.result_collector import ResultCollector, RunJournal, RunStart
from evalgate.runner.run_strategy import RunSchedule, ScoreCases
from evalgate.statistics.control_test import ControlDecision, decide_control_runs, plan_control_runs
from evalgate.system import git

_WITNESSES = 2
"""Maximum number of witnesses: cases that the change passes, and that the control runs to show that it works.

They are run if the control passes no other case. One pass is enough."""


@frozen
class ControlResult:
    """Result of the control runs."""

    comparison: ControlComparison | None = None
    """Comparison of the change's agent with the control. None if no control runs were made or none count:
    then the comparison with the baseline decides."""
    notices: tuple[str, ...] = ()


@dataclass
class _UsageJournal:
    """Wrapper around the gate's journal that stores the usage of control runs, and drops the runs.

    Control runs cannot be resumed after an interruption.
    """

    journal: RunJournal

    def begin_run(self) -> None:
        """Do nothing, because the journal was begun before the control runs."""

    def add_runs(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Do nothing: after an interruption, both agents must run again at about the same time."""

    def record_usage(self, used: RunUsage) -> None:
        self.journal.record_usage(used)


@dataclass
class ControlStrategy:
    """Strategy that makes pairs of runs: one of the change's agent, and one of the control.

    Only suspects (cases that seem to regress) get pairs. Odd run numbers belong to the change's agent (the
    head), even run numbers to the control (the base commit's agent). If no run of the control passes, it may
    be defective. So the control then makes one run of each witness: a case that the change's agent passes.
    """

    suspects: ControlSuspects
    witnesses: Sequence[CaseKey]
    keys: Sequence[CaseKey]
    """The cases of the plan, in order."""
    fresh: Mapping[CaseKey, FreshRuns] = field(default_factory=dict)
    """Runs that both agents made in pairs so far, by case, and runs of the witnesses. The earlier runs, from
    which the suspects were found, are not included."""
    decision: ControlDecision | None = None
    """The decision; None if more runs are wanted."""

    @property
    def plans_next_runs(self) -> bool:
        """Return True, because pairs are added until there is a decision."""
        return True

    def plan_first_runs(self, case_count: int) -> RunSchedule:
        """Return the first pairs of runs of every suspect; `case_count` is ignored."""
        del case_count
        return self._plan_pairs()

    def plan_next_runs(self, score_cases: ScoreCases) -> RunSchedule:
        """Update `fresh` and `decision` from the results so far, and return the next runs.

        Without a decision, the next runs are further pairs. With a decision, they are the runs of the
        witnesses; if these are not needed or exist already, the schedule is empty.
        """
        results = score_cases(None)
        first = {case.key: case for case in self.suspects.cases}
        self.fresh = {case.key: split_fresh_runs(first[case.key], case) for case in results if case.runs}
        if schedule := self._plan_pairs():
            return schedule
        asked = any(key in self.fresh for key in self.witnesses)
        if asked or not self.is_witness_needed:
            return {}
        return {index: (2,) for index, key in enumerate(self.keys) if key in self.witnesses}

    def _plan_pairs(self) -> RunSchedule:
        inputs = self.suspects.build_inputs(self.fresh)
        step = plan_control_runs(*inputs, self.suspects.statistics.parameters)
        if isinstance(step, ControlDecision):
            self.decision = step
            return {}
        self.decision = None
        names = {build_row_name(case): case.key for case in self.suspects.cases}
        pairs = {names[name]: count for name, count in step.pairs.items()}
        schedule = {}
        for index, key in enumerate(self.keys):
            if count := pairs.get(key):
                found = self.fresh.get(key)
                made = len(found.head.runs) + len(found.control.runs) if found else 0
                schedule[index] = tuple(range(made + 1, made + 2 * count + 1))
        return schedule

    def decide(self) -> ControlDecision:
        """Return `decision`; if it is None, return the decision that follows from the runs so far."""
        return self.decision or decide_control_runs(
            *self.suspects.build_inputs(self.fresh), self.suspects.statistics.parameters
        )

    @property
    def is_witness_needed(self) -> bool:
        """Return True if no run of the control passed, so that witnesses must show that the control works.

        Return False if there is no decision yet, or if the decision is that the change broke cases (`broke`).
        """
        return (
            self.decision is not None
            and self.decision.answer != "broke"
            and not any(_is_passed(run) for each in self.fresh.values() for run in each.control.runs)
        )


def _is_passed(run: RunResult) -> bool:
    statuses = [metric.gating_status for metric in run.metrics]
    return run.outcome == "answered" and "passed" in statuses and not {"failed", "errored"} & {*statuses}


async def compare_with_control(
    plan: Plan,
    run_results: ResultCollector,
    agent: Agent,
    statistics: StatisticalPolicy | None,
    baseline: Baseline | None,
    anchor_baseline: Baseline | None = None,
    *,
    control_source: ControlSource,
    journal: RunJournal | None = None,
) -> ControlResult:
    """Make control runs if the gate would fail against the baseline, and control runs might let it pass.

    Control runs are runs of the base commit's agent. If they are not needed, the result is empty. If they are
    not possible, the result has only a notice with the reason. In both cases, the comparison with the
    baseline decides.

    Args:
        plan: The plan of the runs.
        run_results: The results of the change's runs, which are complete.
        agent: The change's agent, still started.
        statistics: Settings of the tests of significance; with None, there are no control runs.
        baseline: Stored runs; with None, there are no control runs.
        anchor_baseline: Stored runs of `gate.anchor`; None if it is not set.
        control_source: Source of the control.
        journal: Journal that gets the usage of the control runs.
    """
    suspects = _find_suspects(plan, run_results, statistics, baseline, anchor_baseline, control_source)
    if suspects is None:
        return ControlResult()
    try:
        async with AsyncExitStack() as stack:
            control_agent = await build_control_in_thread(stack, plan, control_source)
            await _start_control(stack, control_agent)
            strategy = await _make_runs(plan, run_results, agent, control_agent, suspects, journal)
            control_agent.check_files()
            is_base_changed = _is_base_changed(plan, control_agent.commit, suspects.baseline)
            base_name = control_source.describe_base(plan.agent_environ)
            return _build_result(control_agent, strategy, base_name, is_base_changed=is_base_changed)
    except ControlUnavailableError as error:
        why = to_sentence(str(error))
        notice = f"No control runs count, so the comparison with the baseline decides: {why}"
        return ControlResult(None, (notice,))


def _find_suspects(
    plan: Plan,
    run_results: ResultCollector,
    statistics: StatisticalPolicy | None,
    baseline: Baseline | None,
    anchor_baseline: Baseline | None,
    control_source: ControlSource,
) -> ControlSuspects | None:
    """Return the suspects (cases that seem to regress) if control runs could change the verdict.

    Return None if the gate does not fail without control runs, or would fail even with the most favourable
    control runs.
    """
    scored = score_and_decide(plan, run_results, statistics, baseline)
    compared_runs = compare_runs(scored, baseline, plan.gate, whole_sets=plan.whole_sets, with_power=False)
    suspects = find_suspects(scored, compared_runs.cases, baseline, control_source.mode)
    if suspects is None:
        return None

    def decide_with(control: ControlComparison | None) -> str:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        anchor = compare_with_anchor_baseline(plan, scored, compared_runs, anchor_baseline, now, control)
        corrected = correct_by_control(compared_runs, scored, control)
        evidence = build_gate_input(plan, run_results, scored, corrected, control, anchor)
        return decide_verdict(evidence, plan.gate).status

    today, at_best = decide_with(None), decide_with(build_all_drifted(suspects))
    return suspects if today == "fail" and at_best not in ("fail", "error") else None


async def _start_control(stack: AsyncExitStack, control_agent: ControlAgent) -> None:
    try:
        agent = await stack.enter_async_context(control_agent.agent)
        if isinstance(agent, ChecksEntry):
            await agent.check_entry()
    except (EvalgateError, OSError) as error:
        raise ControlUnavailableError(f"its agent cannot be started: {error}") from None


async def _make_runs(
    plan: Plan,
    run_results: ResultCollector,
    agent: Agent,
    control_agent: ControlAgent,
    suspects: ControlSuspects,
    journal: RunJournal | None,
) -> ControlStrategy:
    """Run suspects with both agents until there is a decision, or the runs end early because of a budget.

    Raises:
        ControlUnavailableError: an agent could not be reached. If the decision is not that the change broke
            cases (`broke`), it is also raised if the runs ended early, or if no run of the control passed.
    """
    witnesses = [
        case.key
        for case in suspects.cases
        if case.gates and case.key not in suspects.broken and case.runs and all(map(_is_passed, case.runs))
    ][:_WITNESSES]
    chosen = plan.select_cases({*suspects.keys, *witnesses})
    keys = [
        (suite.eval_set.eval_set_id, case.eval_id) for suite in chosen.suites for case in suite.eval_set.cases
    ]
    strategy = ControlStrategy(suspects, witnesses, keys)
    usage_journal = _UsageJournal(journal) if journal is not None else None
    run_start = RunStart(journal=usage_journal, used=run_results.earlier_judge_usage)
    fresh = ResultCollector(chosen, run_results.progress, run_start)
    fresh.calibration_verdict = run_results.calibration_verdict
    await PlanExecution(fresh, AlternatingAgent(agent, control_agent.agent), strategy).make_runs()
    strategy.plan_next_runs(fresh.score_cases)
    if fresh.unreachable:
        raise ControlUnavailableError(f"an agent could not be reached: {fresh.unreachable}")
    if strategy.decision is None and strategy.decide().answer != "broke":
        why = fresh.spending.exhaustion_reason or "the runs ended early"
        raise ControlUnavailableError(f"{why} before they told anything")
    if strategy.is_witness_needed:
        raise ControlUnavailableError(_describe_useless_control(strategy))
    return strategy


def _describe_useless_control(strategy: ControlStrategy) -> str:
    """Return a clause that explains that the control passes no case, so that its runs do not count."""
    asked = [strategy.fresh[key] for key in strategy.witnesses if key in strategy.fresh]
    names = ", ".join(each.control.eval_id for each in asked)
    tried = (
        f"not even {names}, which the change passes"
        if names
        else "and no other case passes that could be asked"
    )
    return f"the control passes nothing, {tried}, so it may lack something that the change's folder has"


def _is_base_changed(plan: Plan, commit: str, baseline: Baseline) -> bool:
    """Return True if files differ between the control's commit and the commit of the newest stored runs.

    `commit` is the control's commit. A difference in the baseline's own file does not count. If one of the
    commits is not known, or git cannot compare them, return True.
    """
    folder = plan.workspace.folder
    then = git.find_commit(folder, baseline.sources[-1].commit or "")
    if not (then and commit):
        return True
    own = git.run_git(folder, "rev-parse", "--show-prefix") + (plan.gate.baseline or DEFAULT_BASELINE)
    try:
        changed = git.execute_git(folder, "diff", "--name-only", "--no-renames", "-z", then, commit)
    except git.GitError:
        return True
    return bool({*os.fsdecode(changed).split("\0")} - {"", own})


def _build_result(
    control_agent: ControlAgent, strategy: ControlStrategy, base_name: str, *, is_base_changed: bool
) -> ControlResult:
    found = build_control_comparison(
        strategy.suspects,
        strategy.fresh,
        strategy.decide(),
        commit=control_agent.commit,
        url=control_agent.url,
        base_name="the base's deployment" if control_agent.url else base_name,
        is_base_changed=is_base_changed,
    )
    name = (
        f"commit {control_agent.commit[:12]}" if control_agent.commit else f"the agent at {control_agent.url}"
    )
    cost = "" if not found.cost_usd else f", for {format_money(found.cost_usd)}"
    made = f"{pluralize(found.runs, 'further run')} compared the change with {name}{cost}."
    return ControlResult(found, (made, *found.iter_sentences(None)))
