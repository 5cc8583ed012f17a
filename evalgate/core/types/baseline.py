"""The baseline: stored runs, with their unrounded scores, that a later run is compared with."""

from collections.abc import Mapping
from dataclasses import field

from evalgate.core.frozen import frozen
from evalgate.core.types.conversation import CaseKey, Outcome, Reply, Usage
from evalgate.core.types.result import Status


@frozen
class BaselineSource:
    """A gate run (one whole run of `evalgate run`) that contributed runs to a baseline."""

    created_at: str | None = None
    """Time of the gate run, as ISO 8601."""
    commit: str | None = None
    branch: str | None = None
    accepted: str | None = None
    """A person's reason to replace all earlier runs by this run (`evalgate baseline accept`); None: the run
    was added to the earlier runs."""
    digest: str = ""
    """Hash that identifies the gate run, so that a run that is saved twice counts once."""


@frozen
class BaselineRun:
    """Scores by metric, and the outcome, of one stored run of a case."""

    source: int
    """0-based index of the run's `BaselineSource` in `Baseline.sources`."""
    outcome: Outcome
    scores: Mapping[str, float | None]
    """Maps the name of a metric to the score. None: the agent gave no answer, or the metric failed or did not
    apply. A metric that is not listed was not evaluated."""
    duration_s: float = 0.0
    usage: Usage | None = None
    user_usage: Usage | None = None
    """Tokens and cost of the simulated user."""
    judge_usage: Usage | None = None
    """Tokens and cost of judging, with cached answers counted like new ones; None: no model judged."""
    divergence: str = ""
    """First difference of a failed run from the expectation, as text such as `missing_call lookup_order`. ""
    if the run passed, or if an older evalgate stored it."""


@frozen
class FailingSince:
    """The gate run in which a case began to fail on the default branch."""

    created_at: str | None = None
    """Time of this gate run, as ISO 8601."""
    commit: str | None = None
    branch: str | None = None


@frozen
class BaselineCase:
    """Stored runs of one case, and its status in the newest gate run."""

    eval_set_id: str
    eval_id: str
    status: Status
    """Status in the newest gate run that has the case."""
    fingerprint: str
    metric_fingerprints: Mapping[str, str]
    """Maps the name of a metric to its fingerprint; only scores with equal fingerprints can be compared."""
    runs: tuple[BaselineRun, ...]
    """Stored runs, the oldest first."""
    replies: tuple[Reply | None, ...] = ()
    """The agent's replies, turn by turn, in the newest gate run in which it answered; empty if they are too
    long to keep, or not known."""
    failing_since: FailingSince | None = None
    """Gate run since which the case is broken. None: the case is not broken. A case is broken if it passed
    before, and all runs since have failed: at least two runs, and more than luck explains. The field stays
    set when the passed runs are no longer stored."""

    @property
    def key(self) -> CaseKey:
        """Return (eval set id, case id), which identifies the case among the cases of all eval sets."""
        return self.eval_set_id, self.eval_id


@frozen
class TrackedFiles:
    """The files that an agent imported and opened in the cases of one eval set."""

    eval_set_id: str
    paths: tuple[str, ...]
    """Paths relative to the working folder, with slashes, sorted; paths elsewhere in the repository begin
    with `../`."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Maps the path of a file to the first 16 hexadecimal digits of its SHA-256. The files are the eval-set
    file and those that the newest run opened. If one of them changes, the agent may open further files, so
    that `paths` may be incomplete."""


@frozen
class Baseline:
    """Stored runs that a later run is compared with."""

    cases: tuple[BaselineCase, ...]
    sources: tuple[BaselineSource, ...]
    """Gate runs, the newest last; at least one."""
    path: str = ""
    """Path or address of the baseline, as reports name it."""
    version: str = ""
    """Version of the source that was read, in words, as `commit 1a2b3c4d5e6f`; "" if the path says enough.
    It is not stored with the baseline."""
    files: tuple[TrackedFiles, ...] = ()
    """Files that the agent opened in any stored run, for each eval set. An eval set is left out if not all
    files of its newest gate run are known."""

    def index_cases(self) -> dict[CaseKey, BaselineCase]:
        """Return the cases by (eval set id, case id)."""
        return {case.key: case for case in self.cases}
