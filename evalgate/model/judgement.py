"""What the statistics say of a metric and of its cases: see docs/statistics.md."""

from typing import Literal, TypeAlias

from evalgate.frozen import frozen

Decided: TypeAlias = Literal["pass", "fail", "inconclusive"]


@frozen
class Estimated:
    """A mean, or a pass^k, held against its minimum with its interval."""

    value: float
    minimum: float
    low: float
    high: float
    verdict: Decided


@frozen
class Flip:
    """The smallest change with which the metric would have ended otherwise."""

    limit: float
    """The average at which the verdict turns."""
    distance: float
    """How far the average is from there."""
    runs: int | None = None
    """Fewest runs that would have to fail (or pass) instead; None: these runs cannot turn it."""


@frozen
class Judgement:
    """How a metric was held against its baseline. Figures are points of its scores, on these cases."""

    verdict: Decided
    reason: str
    """A stable word: no_sign, average_fell, case_broke, noisy_drop, no_baseline, missing_runs, …"""
    sentences: tuple[str, ...]
    """The same for people."""
    max_drop: float | None
    """A drop of the mean of this size or more is too much; None: not held to the baseline."""
    require: Literal["guard", "proof"] = "guard"
    rounds: int = 0
    """Runs of every case that the mean rests on."""
    missing: int = 0
    """Runs without a score, of `planned`."""
    planned: int = 0
    drop: float | None = None
    """Baseline minus now: positive is worse. None: nothing was compared."""
    noise: float | None = None
    """What luck alone moves the mean by; None: not measured, as with one run of each case on both sides."""
    p: float | None = None
    """How likely luck alone gives such a drop."""
    level: float | None = None
    """What `p` was held against."""
    low: float | None = None
    high: float | None = None
    """Interval of the drop."""
    notice: float | None = None
    """Drops of this size or more are caught about four times in five."""
    minimum: Estimated | None = None
    reliability: Estimated | None = None
    flip: Flip | None = None
    shared: tuple[str, ...] = ()
    """What they say of all lines of the metric together, where several share one comparison; it stands with
    one of them. `verdict`, `p` and `level` are then of the whole metric, `drop` and `noise` of the line."""


@frozen
class Standing:
    """One metric of one case beside its baseline."""

    status: Literal["ok", "suspect", "broken", "rerun", "new", "removed", "changed", "no_score"]
    baseline_runs: int
    """With a score."""
    baseline_passed: int
    baseline_mean: float | None
    runs: int
    """With a score, those that follow up a suspicion included."""
    passed: int
    mean: float | None
    p: float | None = None
    """How likely luck alone lets this case fall so far; None where it did not."""
    need: int | None = None
    """Failed runs that would confirm that it broke; None: its baseline is too short."""


@frozen
class FollowUp:
    """What further runs say of a case that failed although its baseline does not explain that."""

    outcome: Literal["broke", "flake", "excused", "open"]
    """`broke`: it failed in its first `need` runs, one after the other, or in all but one of some more.
    `flake`: it did not. `excused`: runs of its baseline failed in the same way. `open`: it could not be run
    often enough to tell."""
    runs: int
    """That end in a pass or a failure, further ones included."""
    failed: int
    """Of these."""
    need: int
    """Failed runs in a row from the first one on that no luck explains."""
    baseline_runs: int
    baseline_failed: int
    """In the same way: a crash, or one of the metrics that are missed now."""
    crashed: bool = False
    """The agent crashed or timed out in a run that counts."""


@frozen
class Effort:
    """What the runs of `runs: auto` cost."""

    spent: int
    """Runs that were made."""
    fixed: int
    """Runs of the fixed design that is as sharp."""
    saved: int


MEASURED: frozenset[str] = frozenset({"ok", "suspect", "broken"})
"""Standings of cases whose noise was taken into account."""
