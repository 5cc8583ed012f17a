"""Group the failing cases of a run by their first divergence. All reports show these groups.

The first divergence is the first difference from the expectation, such as a missing tool call. A group is
marked as unprecedented if all of this is true:

- The divergence of the group is due to the agent, not to a judge or a service.
- The baseline stores the divergence of every failed run, and none of these equals that of the group.
- At least one case of the group is unchanged, has stored runs that do not excuse its failure, and was not
  already broken in the baseline.
"""

from collections.abc import Iterable, Mapping, Sequence

from evalgate.baselines.failing_since import collect_case_thresholds
from evalgate.baselines.flakiness import MetricThresholds, score_run_pass
from evalgate.core.failures.divergence import NO_AGENT_KINDS, Divergence
from evalgate.core.failures.run_divergences import find_divergence
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    CaseKey,
    CaseResult,
    Comparison,
    FailureGroup,
    Record,
    RecordedCriterion,
)
from evalgate.redaction.redactor import REPLACEMENT


def list_failure_groups(record: Record) -> tuple[FailureGroup, ...]:
    """Return the failure groups that the record stores.

    If the record stores no group, compute the groups from its cases. Then no group is marked as unprecedented
    (seen in no stored run), because this needs the baseline.
    """
    return record.failure_groups or group_failures(record.cases, record.comparison, record.criteria)


def group_failures(
    cases: Sequence[CaseResult],
    comparison: Comparison | None,
    criteria: Sequence[RecordedCriterion],
    baseline: Baseline | None = None,
) -> tuple[FailureGroup, ...]:
    """Return the failing cases that gate, grouped by their first difference from the expectation.

    The group with the most newly failing cases comes first. Groups with equally many newly failing cases are
    sorted by size, the largest first. Without a baseline, no group is marked as unprecedented (seen in no
    stored run).
    """
    failing = [case for case in cases if case.gates and case.status in {"failed", "errored"}]
    changes = comparison.changes if comparison else ()
    newly = {change.key for change in changes if change.change == "newly_failing"}
    options = {(each.metric, each.fingerprint): each for each in criteria}
    found: dict[Divergence, list[CaseResult]] = {}
    for case in sorted(failing, key=lambda case: case.key not in newly):
        found.setdefault(find_divergence(case, options), []).append(case)
    before = baseline.index_cases() if baseline is not None else {}
    stored = _list_stored_divergences(cases, before) if found and before else None
    groups = [
        FailureGroup(
            divergence.label,
            divergence.kind,
            sum(case.key in newly for case in members),
            tuple(case.key for case in members),
            divergence.tool,
            divergence.detail,
            unprecedented=stored is not None and _is_unprecedented(divergence, members, before, stored),
        )
        for divergence, members in found.items()
    ]
    # The label comes last in the key, so that the order of the cases does not matter.
    return tuple(sorted(groups, key=lambda group: (-group.newly_failing, -len(group.cases), group.label)))


def _is_unprecedented(
    divergence: Divergence,
    cases: Sequence[CaseResult],
    before: Mapping[CaseKey, BaselineCase],
    stored: frozenset[str],
) -> bool:
    if divergence.kind in NO_AGENT_KINDS or divergence.signature in stored:
        return False
    return any(
        old.runs and old.fingerprint == case.fingerprint and not _is_known_failure(case, old)
        for case in cases
        if (old := before.get(case.key)) is not None
    )


def _is_known_failure(case: CaseResult, old: BaselineCase) -> bool:
    """Return True if stored runs excuse the case, or show that it had broken before (`failing_since`)."""
    is_excused = case.follow_up is not None and case.follow_up.outcome == "excused"
    return is_excused or old.failing_since is not None


def _list_stored_divergences(
    cases: Iterable[CaseResult], before: Mapping[CaseKey, BaselineCase]
) -> frozenset[str] | None:
    """Return the first divergence of each failed stored run, as a text such as `missing_call lookup_order`.

    Return None if a failed stored run has no stored divergence, or if a part of a text is redacted: then it
    is not known which divergences are new.
    """
    own = collect_case_thresholds(tuple(cases))
    strictest = _find_strictest(own.values())
    found: set[str] = set()
    for key, old in before.items():
        thresholds = own.get(key, strictest)
        for run in old.runs:
            if run.divergence:
                found.add(run.divergence)
            elif score_run_pass(run, thresholds, None) == 0.0:
                return None  # an older version of evalgate stored the run without a divergence
    # A redacted part of a signature cannot be compared with the name that it hides.
    return None if any(REPLACEMENT in each for each in found) else frozenset(found)


def _find_strictest(thresholds: Iterable[MetricThresholds]) -> MetricThresholds:
    """Return the strictest threshold of each metric over all cases.

    The threshold of a metric that gates no case is None.
    """
    found: dict[str, float | None] = {}
    for own in thresholds:
        for name, limit in own.items():
            known, strictest = get_score_range(name), found.get(name)
            is_stricter = limit is not None and (strictest is None or known.is_met(limit, strictest))
            found[name] = limit if is_stricter else strictest
    return found
