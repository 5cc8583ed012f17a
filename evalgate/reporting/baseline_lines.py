"""Lines about the comparison with the baseline: source of the baseline, changed cases, and usage of a run.

Texts of the record are returned as they are, and may hold any characters: reports have to escape them. The
terminal report and the comment import this module only if there is a baseline. "Δ" is the change of a metric
since the baseline, as reports show it.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from evalgate.core.formatting import format_usd, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseChange, CaseKey, CaseResult, Change, Comparison, Record
from evalgate.reporting.findings import NamedCases, explain_left_out_cases, format_case_name

_LEAST_SHARE = 0.2
_LEAST_SECONDS = 0.1
"""The smallest changes of usage that are shown: as a share of the baseline, and in seconds for the time."""


@frozen
class BaselineLine:
    """Texts about the baseline of a run, for one line of a report."""

    source: str
    version: str
    gate_runs: str
    """The number of gate runs in the baseline, such as `3 gate runs`; "" if there is only one."""
    branch: str
    commit: str
    date: str
    counts: str
    """The number of cases by change, such as `1 newly failing, 5 unchanged.`"""
    compared: str
    """Reasons why Δ (change since the baseline) may differ from the score minus the baseline; "" if none."""
    took: str
    """Time, tokens and cost of a run, each only if it changed noticeably, with its change; "" if none did."""


def build_baseline_line(record: Record) -> BaselineLine | None:
    """Return the texts about the baseline; None if there is no baseline."""
    comparison = record.comparison
    if comparison is None:
        return None
    return BaselineLine(
        source=comparison.source or "given",
        version=comparison.version,
        gate_runs=pluralize(comparison.gate_runs, "gate run") if comparison.gate_runs > 1 else "",
        branch=comparison.branch or "",
        commit=(comparison.commit or "")[:12],
        date=(comparison.created_at or "")[:10],
        counts=f"{format_change_counts(record, comparison)}.",
        compared=" ".join(explain_delta(record)),
        took=describe_run_costs(comparison),
    )


CHANGES: dict[Change, str] = {
    "newly_failing": "newly failing",
    "flaky": "failing now and then",
    "newly_passing": "newly passing",
    "changed": "changed",
    "new": "new",
    "removed": "removed",
}
"""The name of each kind of change in reports, the most important first."""


CountedChange: TypeAlias = Change | Literal["unchanged"]
"""What reports count a case as, compared with the baseline."""


def map_counted_changes(record: Record) -> dict[CaseKey, CountedChange]:
    """Return the kind of change, or `unchanged`, as which `format_change_counts` counts each case.

    Cases that do not gate are left out, and so are unchanged cases without a result of the agent, and removed
    cases. Return {} if there is no baseline.
    """
    if record.comparison is None:
        return {}
    changes = {each.key: each.change for each in record.comparison.changes}
    return {
        case.key: changes.get(case.key, "unchanged")
        for case in record.cases
        if case.gates and (case.is_conclusive or case.key in changes)
    }


def group_changes(record: Record, comparison: Comparison) -> dict[Change, list[CaseChange]]:
    """Return the changes of gating cases by kind, the most important kind first, without empty kinds."""
    exempt = {case.key for case in record.cases if not case.gates}
    groups: dict[Change, list[CaseChange]] = {change: [] for change in CHANGES}
    for change in comparison.changes:
        if change.key not in exempt:
            groups[change.change].append(change)
    return {change: found for change, found in groups.items() if found}


def format_change_counts(record: Record, comparison: Comparison) -> str:
    """Return the numbers of cases as `1 newly failing, 2 new, 5 unchanged, 1 quarantined`.

    A case that gates is counted by its change. A case that does not gate is counted only as quarantined or
    observed. Cases of the baseline that this run left out are counted at the end.
    """
    groups = group_changes(record, comparison)
    counts = [f"{len(found):,} {CHANGES[change]}" for change, found in groups.items()]
    exempt = [case for case in record.cases if not case.gates]
    quarantined = sum(case.quarantine is not None for case in exempt)
    changed = {change.key for change in comparison.changes}
    # The comparison counts cases that do not gate as unchanged too; here they have counts of their own.
    unchanged_exempt = sum(case.is_conclusive and case.key not in changed for case in exempt)
    unchanged = max(0, comparison.unchanged - unchanged_exempt)
    others = {
        "quarantined": quarantined,
        "observed": len(exempt) - quarantined,
        "not part of this run": comparison.left_out,
    }
    return ", ".join(
        [*counts, f"{unchanged:,} unchanged", *(f"{many:,} {what}" for what, many in others.items() if many)]
    )


def find_still_failing(record: Record) -> list[CaseResult]:
    """Return the gating cases that failed in the baseline and fail now; [] if there is no baseline."""
    if record.comparison is None:
        return []
    other = {change.key for change in record.comparison.changes}
    gating = (case for case in record.cases if case.gates)
    bad = (case for case in gating if case.is_conclusive and case.status != "passed")
    return [case for case in bad if case.key not in other]


def list_changed_cases(record: Record, most: int) -> Iterator[NamedCases]:
    """Yield the names of newly failing cases, of cases that still fail, and of other changed cases by kind.

    Each `NamedCases` has at most `most` names. Yield nothing if there is no baseline.
    """
    if record.comparison is None:
        return
    groups = group_changes(record, record.comparison)
    if newly := groups.pop("newly_failing", []):
        yield _build_named_cases("newly_failing", newly, most)
    if old := find_still_failing(record):
        names = tuple(format_case_name(case) for case in old[:most])
        yield NamedCases("still failing", names, len(old) - len(names))
    for kind, found in groups.items():
        yield _build_named_cases(kind, found, most)


_MEANINGS: dict[Change, str] = {
    "changed": " (asks or expects something else: not compared)",
    "flaky": " (passed some stored runs and failed others: no sign of a change)",
}


def _build_named_cases(kind: Change, found: Sequence[CaseChange], most: int) -> NamedCases:
    what = CHANGES[kind] + _MEANINGS.get(kind, "")
    names = tuple(f"{change.eval_set_id}/{change.eval_id}" for change in found[:most])
    return NamedCases(what, names, len(found) - len(names))


def count_compared_cases(record: Record) -> int:
    """Return the number of cases that are compared with the baseline, if these are only some of the cases.

    Return 0 if each metric compares all of its cases, or none. If metrics compare different numbers of cases,
    return the largest number that is not all. Budgets are ignored, because other sentences describe them.
    """
    scores = [each for each in record.metrics if not each.range.lower_is_better]
    return max((each.compared for each in scores if 0 < each.compared < each.n), default=0)


def explain_delta(record: Record) -> Iterator[str]:
    """Yield reasons why Δ (the change since the baseline) may differ from the score minus the baseline."""
    if compared := count_compared_cases(record):
        yield f"Δ is over the {pluralize(compared, 'case')} that can be compared."
    crash_scope = find_crash_scope(record)
    if crash_scope is not None:
        yield (
            f"The baseline and Δ{crash_scope} count a crash or timeout as the worst score; the score leaves "
            "its case out."
        )
    yield from explain_left_out_cases(record)


def find_crash_scope(record: Record) -> str | None:
    """Return words that name the metrics with a Δ that counts a crash or timeout as the worst score.

    Δ is the change of a metric since the baseline. The words follow "Δ" in a sentence of the report:

    - "" stands for all metrics with a Δ.
    - " of scores" stands for all of them except budgets.
    - " of gating scores" stands for fewer of them.

    Return None if there is no such metric, or if no gating case crashed or timed out.
    """
    compared = [each for each in record.metrics if each.delta is not None]
    # Budgets, metrics that are only reported, and means without statistics leave out crashed runs.
    others = [each for each in compared if each.judgement is None or each.judgement.max_drop is None]
    if len(others) == len(compared) or not any(case.agent_failed for case in record.cases if case.gates):
        return None
    if not others:
        return ""
    return " of scores" if all(each.range.lower_is_better for each in others) else " of gating scores"


def describe_run_costs(comparison: Comparison) -> str:
    """Return `a run takes 1.20 s (+0.40 s), 350 tokens (−112), on average over 12 cases`.

    The brackets hold the change since the baseline. Time, tokens and cost are named only if they changed by a
    fifth or more, and the time only if it also changed by 0.1 seconds or more. Return "" if none is named.
    """
    then, now = comparison.then, comparison.now
    if then is None or now is None:
        return ""
    parts = []
    difference = now.duration_s - then.duration_s
    if abs(difference) >= max(_LEAST_SECONDS, _LEAST_SHARE * then.duration_s):
        parts.append(f"{now.duration_s:,.2f} s ({_format_change(difference, 2)} s)")
    tokens_then, tokens = then.input_tokens + then.output_tokens, now.input_tokens + now.output_tokens
    if tokens and tokens_then and abs(tokens - tokens_then) >= _LEAST_SHARE * tokens_then:
        parts.append(f"{pluralize(round(tokens), 'token')} ({_format_change(tokens - tokens_then, 0)})")
    if now.cost_usd and then.cost_usd and abs(now.cost_usd - then.cost_usd) >= _LEAST_SHARE * then.cost_usd:
        sign = "+" if now.cost_usd > then.cost_usd else "−"
        change = format_usd(abs(now.cost_usd - then.cost_usd))
        parts.append(f"{format_usd(now.cost_usd)} ({sign}{change})")
    if not parts:
        return ""
    return f"a run takes {', '.join(parts)}, on average over {pluralize(now.cases, 'case')}"


def _format_change(difference: float, digits: int) -> str:
    rounded = round(difference, digits)
    sign = "+" if rounded > 0 else "−" if rounded < 0 else "±"
    return f"{sign}{abs(rounded):,.{digits}f}"
