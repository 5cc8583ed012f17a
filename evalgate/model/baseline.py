"""What a later run is compared with."""

from collections.abc import Mapping

from evalgate.frozen import frozen
from evalgate.model.done import Outcome, Usage
from evalgate.model.said import Reply
from evalgate.model.worth import Status


@frozen
class BaselineSource:
    """A gate run that runs of a baseline come from."""

    created_at: str | None = None
    """ISO 8601."""
    commit: str | None = None
    branch: str | None = None
    accepted: str | None = None
    """Why a person made this run the new standard; None when it merely followed the others."""
    digest: str = ""
    """Tells this gate run from every other: one that is saved twice counts once."""


@frozen
class BaselineRun:
    """One run of a case: raw scores, never means, and how it ended, so that a crash stays a crash."""

    source: int
    """Index of its `BaselineSource`."""
    outcome: Outcome
    scores: Mapping[str, float | None]
    """Metric name → score; None where it has none: the agent gave no answer, the metric itself failed or did
    not apply. A metric that is not named was not asked."""
    duration_s: float = 0.0
    usage: Usage | None = None
    user_usage: Usage | None = None
    """What the simulated user consumed."""
    judge_usage: Usage | None = None
    """What judging it takes when no answer is kept in a cache; None: no model judged."""


@frozen
class FailingSince:
    """The gate run in which a case began to fail on the default branch."""

    created_at: str | None = None
    """ISO 8601."""
    commit: str | None = None
    branch: str | None = None


@frozen
class BaselineCase:
    """One case of a baseline."""

    eval_set_id: str
    eval_id: str
    status: Status
    """In the newest gate run that has it."""
    fingerprint: str
    metric_fingerprints: Mapping[str, str]
    """Metric name → what it was; scores compare only when it is equal."""
    runs: tuple[BaselineRun, ...]
    """The oldest first."""
    replies: tuple[Reply | None, ...] = ()
    """What the agent did, turn by turn, in the newest gate run, where it answered; empty where that is too
    long to keep."""
    failing_since: FailingSince | None = None
    """Set: it passed before, and every run since has failed, also where the runs that passed are gone."""


@frozen
class Baseline:
    """What a later run is compared with."""

    cases: tuple[BaselineCase, ...]
    sources: tuple[BaselineSource, ...]
    """The newest last; at least one."""
    path: str = ""
    """Where it was read from, as reports name it."""
    version: str = ""
    """Which state of that place was read, in words, as `commit 1a2b3c4d5e6f`; "" where a path says it all.
    Never written."""
