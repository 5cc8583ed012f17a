"""Find the thresholds and policies that apply now to the cases of a baseline."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evalgate.baselines.flakiness import BaselineThresholds
from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseKey, CasePolicy
from evalgate.metrics.scoring import DEFAULT_CASE_POLICY
from evalgate.runner.baseline_targets import BaselineTarget
from evalgate.runner.validation import load_suites


@frozen
class CurrentCases:
    """Cases of today's eval sets, to find the cases of a baseline that still count for the gate."""

    gating: Mapping[CaseKey, CasePolicy] | None = None
    """Policies of the cases that can close the gate; None: the eval sets are unknown, so all cases count."""
    non_gating: frozenset[CaseKey] = frozenset()
    """Cases that cannot close the gate: quarantined cases, and imported cases that were not reviewed yet."""
    problem: str = ""
    """Reason, as part of a sentence, why weights and quarantine of cases are not known. "" if they are known,
    or if the thresholds file has none."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the weight of each case in `gating`, by `eval_set_id/eval_id`; {} if `gating` is None."""
        known = self.gating or {}
        return {f"{key[0]}/{key[1]}": case_policy.weight for key, case_policy in known.items()}

    def select_gating_cases(self, baseline: Baseline) -> Baseline:
        """Return the baseline with only the cases that are in `gating`; all its cases if `gating` is None."""
        known = self.gating
        if known is None:
            return baseline
        return replace(baseline, cases=tuple(case for case in baseline.cases if case.key in known))

    def select_run_cases(self, baseline: Baseline) -> Baseline:
        """Return the baseline with only the cases of today's eval sets; all cases if these are unknown."""
        known = self.gating
        if known is None:
            return baseline
        kept = (case for case in baseline.cases if case.key in known or case.key in self.non_gating)
        return replace(baseline, cases=tuple(kept))

    def describe_counted_cases(self, baseline: Baseline) -> str:
        """Return a sentence that says how many cases of the baseline count for the gate; "" if all do.

        If `problem` is set, return a sentence with this problem instead.
        """
        stored = len(baseline.cases)
        if self.problem:
            counted = pluralize(stored, "stored case")
            return f"Weights (`cases`) and `gate.quarantine` do not count in {counted}: {self.problem}"
        non_gating = sum(case.key in self.non_gating for case in baseline.cases)
        gone = stored - non_gating - len(self.select_gating_cases(baseline).cases)
        return describe_left_out_cases(stored, non_gating, gone)


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


def load_current_cases(config: Config, folder: Path, thresholds_file: str | None) -> CurrentCases:
    """Return the cases of today's eval sets, with the policies of the thresholds file.

    The eval sets are those that the thresholds file lists. If it lists none, or if they or the quarantine
    file cannot be read, the cases are not known.

    Args:
        config: contents of the thresholds file.
        folder: working folder of the project.
        thresholds_file: path of the thresholds file as the user named it; None if the user named no file.
    """
    if not config.eval_sets:
        has_policies = bool(config.cases) or config.gate.quarantine is not None
        return CurrentCases(problem="the thresholds file lists no `eval_sets`." if has_policies else "")
    try:
        suites = load_suites(
            Overrides(), thresholds_file=thresholds_file, folder=folder, marks_quarantined=True
        )
    except InvalidInputError as error:
        return CurrentCases(problem=_describe_problems(error))
    gating, non_gating = dict[CaseKey, CasePolicy](), set[CaseKey]()
    for suite in suites:
        for case in suite.eval_set.cases:
            key = suite.eval_set.eval_set_id, case.eval_id
            case_policy = suite.case_policies.get(key, DEFAULT_CASE_POLICY)
            if case_policy.quarantine is None and case.status != "observed":
                gating[key] = case_policy
            else:
                non_gating.add(key)
    return CurrentCases(gating, frozenset(non_gating))


def load_current_thresholds(target: BaselineTarget, thresholds_file: str | None) -> BaselineThresholds:
    """Return the thresholds of the thresholds file: common thresholds by metric, and those of single cases.

    `target` is the baseline with the loaded file. `thresholds_file` is the path of the file as the user named
    it; None if the user named no file. The eval sets are read only if the file has thresholds for single
    cases. If they cannot be read, thresholds of single cases are left out, and the field `remark` of the
    result states the reason.
    """
    common = {each.metric: each.threshold if each.gates else None for each in target.criteria}
    if not any(rule.criteria for rule in target.config.cases):
        return BaselineThresholds(common)
    try:
        suites = load_suites(Overrides(), thresholds_file=thresholds_file, folder=target.workspace.folder)
    except InvalidInputError as error:
        remark = f"The thresholds of single cases (`cases`) do not count here: {_describe_problems(error)}"
        return BaselineThresholds(common, remark=remark)
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
    return BaselineThresholds(common, own)


def _describe_problems(error: InvalidInputError) -> str:
    """Return the first problem and the number of the others, as the end of a sentence."""
    first, *others = error.problems
    more = f" (and {pluralize(len(others), 'more problem')})" if others else ""
    return f"{first}{more}".rstrip(".") + "."
