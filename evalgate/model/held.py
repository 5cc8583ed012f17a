"""What cases are held to."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from evalgate.frozen import frozen
from evalgate.model.said import JsonObject


@frozen
class ScopedThreshold:
    """A threshold that holds for some cases only."""

    threshold: float
    scope: str
    """For which, as reports name them: `refund_*`, `tag smoke`."""
    min_mean: float | None = None
    """What the mean of these cases must reach; None: as `Criterion.min_mean` says."""


@frozen
class Quarantine:
    """Why a case does not gate for now."""

    owner: str
    """Who answers for it."""
    reason: str
    expires: str
    """The last day on which it holds, as 2026-12-31."""


@frozen
class CasePolicy:
    """What holds for one case beside the thresholds of all."""

    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Share in the mean of each metric, above 0."""
    protected: bool = False
    """The gate closes when it fails, whatever else is allowed."""
    thresholds: Mapping[str, ScopedThreshold] = field(default_factory=dict)
    """Metric → its own threshold."""
    quarantine: Quarantine | None = None
    """Set: it runs and is reported, and does not gate."""


@frozen
class Reliability:
    """How often the runs of a case must pass, where their mean is not what decides."""

    kind: Literal["pass^k", "pass@k"]
    """That k runs all pass, or that at least one of k does."""
    k: int
    at_least: float = 1.0
    """What the estimate must reach."""


UNIT_RANGE = (0.0, 1.0)


@frozen
class Criterion:
    """One line of a thresholds file: a metric, its options, and the score it must reach."""

    metric: str
    """The name as the user wrote it."""
    threshold: float
    options: JsonObject = field(default_factory=dict)
    """The metric's own options, not yet checked."""
    evaluator: str = ""
    """What the catalogue calls the metric, where that is not `metric`."""
    reliability: Reliability | None = None
    """None: the mean over the runs decides a case."""
    rule: Literal["literal", "statistical"] = "literal"
    """Whether a mean below the threshold fails as it stands, or only when that is more than noise."""
    max_regression: float | None = None
    """Own allowance for a drop against the baseline; None: the gate's."""
    range: tuple[float, float] = UNIT_RANGE
    """The metric's lowest and highest score."""
    min_mean: float | None = None
    """What the mean of all cases must reach as it stands. None: `threshold`, unless a comparison with a
    baseline judges the mean. Equal to `threshold` where the file's owner holds the mean to it."""
