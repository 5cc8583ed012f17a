"""What later runs are held against: how it is made, grown and written down."""

from evalgate.baseline.flips import flakiness_of
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
    "baseline_of",
    "before",
    "days_old",
    "digest_of",
    "dump_baseline",
    "flakiness_of",
    "is_baseline",
    "load_baseline",
    "newest",
    "parted",
    "pruned",
    "read_standard",
    "remarks",
    "together",
]
