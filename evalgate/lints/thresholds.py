"""Thresholds that decide nothing."""

from collections.abc import Iterator

from evalgate.config import Thresholds


def lint_thresholds(rules: Thresholds) -> Iterator[str]:
    """A sentence, with its place in the file, for every threshold that no score can miss."""
    for criterion in rules.criteria:
        if criterion.threshold > criterion.range[0] or criterion.metric in rules.config.custom_metrics:
            continue  # a function of the user's may give negative scores
        line, _ = rules.position(("criteria", criterion.metric))
        place = f"{rules.file}:{line}" if line else rules.file
        yield (
            f"{place}: no score misses the threshold {criterion.threshold:g} of `{criterion.metric}`: "
            "only a baseline can hold it to anything"
        )
