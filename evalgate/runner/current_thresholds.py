"""Find the thresholds and policies that apply now to the cases of a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from evalgate.baselines.failing_since import keep_comparable_runs
from evalgate.baselines.flakiness import BaselineThresholds, MetricThresholds
from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.thresholds import Config
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseKey, CasePolicy, Criterion
from evalgate.runner.baseline_targets import BaselineTarget
from evalgate.runner.suites import Suite
from evalgate.runner.validation import load_suites


@frozen
class CurrentCases:
    """Cases of today's eval sets, to find the cases and runs of a baseline that still count for the gate."""

    policies: Mapping[CaseKey, CasePolicy] | None = None
    """Policies of all cases; None: the eval sets are unknown, so all stored cases count."""
    observed: frozenset[CaseKey] = frozenset()
    """Imported cases that were not reviewed yet. Like quarantined cases, they cannot close the gate."""
    problem: str = ""
    """Reason, as part of a sentence, why weights and quarantine of cases are not known. "" if they are known,
    or if the thresholds file has none."""
    thresholds: BaselineThresholds = field(default_factory=lambda: BaselineThresholds({}))
    """Thresholds of the cases, which show whether a case broke."""
    pass_score: float = 1.0
    """Threshold of metrics if `thresholds` is empty, as a share of the metric's range from 0 to 1."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the weight of each case in `policies`, by `eval_set_id/eval_id`; {} if it is None."""
        known = self.policies or {}
        return {f"{key[0]}/{key[1]}": case_policy.weight for key, case_policy in known.items()}

    @property
    def gating(self) -> frozenset[CaseKey]:
        """Return the cases in `policies` that can close the gate; none if `policies` is None."""
        known = (self.policies or {}).items()
        return frozenset(key for key, policy in known if policy.quarantine is None) - self.observed

    def select_gating_cases(self, baseline: Baseline) -> Baseline:
        """Return the baseline with only the cases that can close the gate; all if `policies` is None."""
        if self.policies is None:
            return baseline
        gating = self.gating
        return replace(baseline, cases=tuple(case for case in baseline.cases if case.key in gating))

    def select_run_cases(self, baseline: Baseline) -> Baseline:
        """Return the baseline with only the cases of today's eval sets; all cases if these are unknown."""
        known = self.policies
        if known is None:
            return baseline
        return replace(baseline, cases=tuple(case for case in baseline.cases if case.key in known))

    def require_run_cases(self, baseline: Baseline, name: str) -> Baseline:
        """Return what `select_run_cases` returns. `name` is the name of the baseline.

        Raises:
            InvalidInputError: the baseline has cases, but none of them is in today's eval sets.
        """
        found = self.select_run_cases(baseline)
        if baseline.cases and not found.cases:
            raise InvalidInputError(f"{name}: {self.describe_removed_cases(baseline)}")
        return found

    def describe_removed_cases(self, baseline: Baseline) -> str:
        """Return a sentence that says how many cases are in no eval set of today; "" if none are."""
        stored = len(baseline.cases)
        return describe_left_out_cases(stored, 0, stored - len(self.select_run_cases(baseline).cases))

    def keep_comparable_runs(self, baseline: Baseline) -> Baseline:
        """Return the baseline without runs before the break of a case, and without runs of a fixed break."""
        known = {
            case.key: {plugin_registry.FINAL_STATE: 1.0, **self.thresholds.get_thresholds(case.key)}
            for case in baseline.cases
        }
        # The gate ignores stored metrics without a criterion; `pass_score` counts if no criterion is known.
        is_known = bool(self.thresholds.common or self.thresholds.own)
        return keep_comparable_runs(baseline, known, None if is_known else self.pass_score)

    def select_compared_runs(self, baseline: Baseline) -> Baseline:
        """Return the baseline with only the cases and runs that the gate would compare with."""
        return self.keep_comparable_runs(self.select_gating_cases(baseline))

    def describe_compared_runs(self, baseline: Baseline) -> str:
        """Return sentences about the cases and runs of the baseline that do not count for the gate.

        Return "" if all count. If `problem` is set, the first sentence says so.
        """
        breaks = self._describe_breaks(self.select_gating_cases(baseline))
        return " ".join(filter(None, (self._describe_counted_cases(baseline), breaks)))

    def _describe_breaks(self, baseline: Baseline) -> str:
        """Return sentences about the cases that lost runs because of a break; "" without such a case."""
        pairs = zip(baseline.cases, self.keep_comparable_runs(baseline).cases, strict=True)
        changed = [after for before, after in pairs if len(after.runs) < len(before.runs)]
        broke = sum(case.failing_since is not None for case in changed)
        fixed = len(changed) - broke
        sentences = []
        if broke:
            what, theirs = pluralize(broke, "case"), "its" if broke == 1 else "their"
            sentences.append(f"{what} broke on the default branch: only {theirs} runs since then count.")
        if fixed:
            what, were = pluralize(fixed, "case"), "was" if fixed == 1 else "were"
            sentences.append(
                f"{what} broke on the default branch and {were} fixed: the runs in between do not count."
            )
        return " ".join(sentences)

    def _describe_counted_cases(self, baseline: Baseline) -> str:
        stored = len(baseline.cases)
        if self.problem:
            counted = pluralize(stored, "stored case")
            return f"Weights (`cases`) and `gate.quarantine` do not count in {counted}: {self.problem}"
        present = len(self.select_run_cases(baseline).cases)
        non_gating = present - len(self.select_gating_cases(baseline).cases)
        return describe_left_out_cases(stored, non_gating, stored - present)


def describe_left_out_cases(stored: int, non_gating: int, gone: int) -> str:
    """Return a sentence that says how many of the `stored` cases count; "" if all of them do.

    `non_gating` of the cases cannot close the gate, and `gone` are in no eval set of today.
    """
    reasons = []
    if non_gating:
        reasons.append(
            f"{non_gating:,} cannot close the gate (quarantined, or imported and not reviewed yet)"
        )
    if gone:
        reasons.append(f"{gone:,} {'is' if gone == 1 else 'are'} no longer in the eval sets")
    if not reasons:
        return ""
    counted = stored - non_gating - gone
    verb = "counts" if 1 in {counted, stored} else "count"
    return f"{counted:,} of {pluralize(stored, 'stored case')} {verb}: {' and '.join(reasons)}."


def load_current_cases(
    config: Config, criteria: Sequence[Criterion], folder: Path, thresholds_file: str | None
) -> CurrentCases:
    """Return the cases of today's eval sets, with the policies of the thresholds file.

    The eval sets are those that the thresholds file lists. If it lists none, or if they or the quarantine
    file cannot be read, the cases are not known.

    Args:
        config: contents of the thresholds file.
        criteria: criteria of the thresholds file.
        folder: working folder of the project.
        thresholds_file: path of the thresholds file as the user named it; None if the user named no file.
    """
    common, pass_score = BaselineThresholds(_index_thresholds(criteria)), config.gate.statistics.pass_score
    if not config.eval_sets:
        has_policies = bool(config.cases) or config.gate.quarantine is not None
        problem = "the thresholds file lists no `eval_sets`." if has_policies else ""
        return CurrentCases(problem=problem, thresholds=common, pass_score=pass_score)
    try:
        suites = load_suites(
            Overrides(), thresholds_file=thresholds_file, folder=folder, marks_quarantined=True
        )
    except InvalidInputError as error:
        problem = _describe_problems(error)
        return CurrentCases(problem=problem, thresholds=common, pass_score=pass_score)
    policies, observed = dict[CaseKey, CasePolicy](), set[CaseKey]()
    for suite in suites:
        for case in suite.eval_set.cases:
            key = suite.eval_set.eval_set_id, case.eval_id
            policies[key] = suite.get_case_policy(case)
            if case.status == "observed":
                observed.add(key)
    known = _add_case_thresholds(common, suites)
    return CurrentCases(policies, frozenset(observed), thresholds=known, pass_score=pass_score)


def load_current_thresholds(target: BaselineTarget, thresholds_file: str | None) -> BaselineThresholds:
    """Return the thresholds of the thresholds file: common thresholds by metric, and those of single cases.

    `target` is the baseline with the loaded file. `thresholds_file` is the path of the file as the user named
    it; None if the user named no file. The eval sets are read only if the file has thresholds for single
    cases. If they cannot be read, thresholds of single cases are left out, and the field `remark` of the
    result states the reason.
    """
    common = BaselineThresholds(_index_thresholds(target.criteria))
    if not any(rule.criteria for rule in target.config.cases):
        return common
    try:
        suites = load_suites(Overrides(), thresholds_file=thresholds_file, folder=target.workspace.folder)
    except InvalidInputError as error:
        remark = f"The thresholds of single cases (`cases`) do not count here: {_describe_problems(error)}"
        return replace(common, remark=remark)
    return _add_case_thresholds(common, suites)


def _index_thresholds(criteria: Sequence[Criterion]) -> MetricThresholds:
    return {each.metric: each.threshold if each.gates else None for each in criteria}


def _add_case_thresholds(thresholds: BaselineThresholds, suites: Sequence[Suite]) -> BaselineThresholds:
    """Return the thresholds with those that the case policies of the suites set for single cases."""
    common = thresholds.common
    own = {
        key: {
            metric: each.threshold
            for metric, each in case_policy.thresholds.items()
            if common.get(metric) is not None
        }
        for suite in suites
        for key, case_policy in suite.case_policies.items()
        if case_policy.thresholds
    }
    return replace(thresholds, own=own)


def _describe_problems(error: InvalidInputError) -> str:
    """Return the first problem and the number of the others, as the end of a sentence."""
    first, *others = error.problems
    more = f" (and {pluralize(len(others), 'more problem')})" if others else ""
    return f"{first}{more}".rstrip(".") + "."
