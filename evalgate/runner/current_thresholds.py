"""Find the thresholds that apply now to the cases of a baseline."""

from evalgate.baselines.flakiness import BaselineThresholds
from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.runner.baseline_targets import BaselineTarget
from evalgate.runner.validation import load_suites


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
        first, *others = error.problems
        more = f" (and {pluralize(len(others), 'more problem')})" if others else ""
        remark = (
            f"The thresholds of single cases (`cases`) do not count here: {first}{more}".rstrip(".") + "."
        )
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
