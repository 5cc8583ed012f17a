"""What later runs are held against: how it is made, grown and written down."""

from evalgate.baseline.breaks import (
    already_failing,
    drop_runs_before_breaks,
    find_break,
    name_since,
    thresholds_of,
)
from evalgate.baseline.flips import flakiness_of, run_passes
from evalgate.baseline.history import (
    KEPT,
    STALE_DAYS,
    accepted,
    added,
    baseline_of,
    before,
    days_old,
    digest_of,
    newest,
    parted,
    pruned,
    remarks,
    together,
)
from evalgate.baseline.standard import is_baseline, read_standard
from evalgate.baseline.text import KIND, dump_baseline, load_baseline

__all__ = [
    "KEPT",
    "KIND",
    "STALE_DAYS",
    "accepted",
    "added",
    "already_failing",
    "baseline_of",
    "before",
    "days_old",
    "digest_of",
    "drop_runs_before_breaks",
    "dump_baseline",
    "find_break",
    "flakiness_of",
    "is_baseline",
    "load_baseline",
    "name_since",
    "newest",
    "parted",
    "pruned",
    "read_standard",
    "remarks",
    "run_passes",
    "thresholds_of",
    "together",
]
