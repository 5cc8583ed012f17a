"""Warnings about thresholds that decide nothing or contradict each other."""

from collections.abc import Iterator, Mapping

from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.protocols import AllowsExtraCalls, Metric
from evalgate.core.types import Criterion


def lint_thresholds(thresholds: Thresholds) -> Iterator[str]:
    """Yield a sentence, `file:line` first, for each threshold or anchor that is probably a mistake.

    A setting is probably a mistake if it can never change the verdict, or contradicts another setting. The
    anchor (`gate.anchor`) is an older baseline, with which the means of metrics are compared.
    """
    for criterion in thresholds.criteria:
        for finding in (
            *_find_unmissable_threshold(criterion, thresholds),
            *_find_contradictions(criterion, thresholds.config.gate),
        ):
            line, _ = thresholds.find_position(thresholds.locate_criterion(criterion))
            location = f"{thresholds.file}:{line}" if line else thresholds.file
            yield f"{location}: {finding}"
    for finding in _lint_anchor(thresholds.config.gate):
        line, _ = thresholds.find_position(("gate", "anchor"))
        yield f"{thresholds.file}:{line}: {finding}" if line else f"{thresholds.file}: {finding}"


def _lint_anchor(gate: GateConfig) -> Iterator[str]:
    if gate.anchor is None:
        return
    limit = gate.max_regression if gate.anchor.max_regression is None else gate.anchor.max_regression
    if gate.anchor.baseline == gate.baseline:
        yield (
            "`anchor` is the `baseline`, which moves with every save: add `@` and a tag, a commit or a date, "
            "or name a file that stays as it is"
        )
    if limit >= 1:
        yield "`anchor` decides nothing: with `max_regression: 1` no drop since then is too large"


def _find_unmissable_threshold(criterion: Criterion, thresholds: Thresholds) -> Iterator[str]:
    known = criterion.range
    if known.lower_is_better or criterion.threshold > known.low:
        return
    if criterion.metric in thresholds.config.custom_metrics:
        return  # a custom metric may return negative scores
    yield (
        f"no score misses the threshold {criterion.threshold:g} of `{criterion.metric}`: "
        "only a baseline can hold it to anything"
    )


def _find_contradictions(criterion: Criterion, gate: GateConfig) -> Iterator[str]:
    minimum, highest = criterion.min_mean, criterion.range.high
    if minimum is None:
        if criterion.range.lower_is_better:
            return
        if gate.max_failed_cases and gate.baseline is None and criterion.threshold >= highest:
            yield (
                f"`max_failed_cases: {gate.max_failed_cases}` allows no failed case: without a baseline the "
                f"mean of `{criterion.metric}` must reach {highest:g} too; add a lower `min_mean`"
            )
        return
    named = f"`min_mean: {minimum:g}` of `{criterion.metric}`"
    if minimum >= highest and (kind := _find_forgiving_setting(criterion, gate)):
        yield f"{named} closes the gate at every run that fails, also at those that {kind} forgives"
        return
    needs_every_case = gate.baseline is None and not gate.max_failed_cases and criterion.reliability is None
    if needs_every_case and minimum <= criterion.threshold:
        yield (
            f"{named} decides nothing: without a baseline and `max_failed_cases` every case must reach "
            f"{criterion.threshold:g}, and so does the mean"
        )


def _find_forgiving_setting(criterion: Criterion, gate: GateConfig) -> str:
    """Return the setting with which the gate can pass although a run or a case failed; "" if none is set.

    The result is the subject of a sentence, such as "`pass_hat_k`", "`max_failed_cases`" or "the baseline".
    """
    if criterion.reliability is not None:
        return f"`{criterion.reliability.kind.replace('^', '_hat_').replace('@', '_at_')}`"
    if gate.max_failed_cases:
        return "`max_failed_cases`"
    return "the baseline" if gate.baseline else ""


def lint_extra_calls(thresholds: Thresholds, metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Yield a sentence, `file:line` first, for each metric that passes in spite of additional tool calls."""
    for name, metric in metrics.items():
        if isinstance(metric, AllowsExtraCalls) and metric.allows_extra_calls:
            line, _ = thresholds.find_position(("criteria", name))
            location = f"{thresholds.file}:{line}" if line else thresholds.file
            yield (
                f"{location}: `{name}` lets any additional tool call pass, wanted or not: "
                "only an exact match holds the agent to the expected calls alone"
            )
