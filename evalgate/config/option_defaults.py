"""Default values that the thresholds file and the help of the command line share.

This module does not load pydantic, so that `evalgate run --help` is fast.
"""

from typing import Final, Literal

WORKERS = 1
CONCURRENCY = 16
TURN_TIMEOUT = 60.0
"""Time limit of one turn, in seconds."""
EXECUTOR: Final = "local"
MAX_REGRESSION = 0.05
"""Smallest drop of a metric's mean that is too large, as a share of the range of the metric's scores."""
JUDGE_CACHE: Final = "read-write"
POLICY: Literal["base", "head"] = "base"
