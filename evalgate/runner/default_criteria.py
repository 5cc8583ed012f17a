"""Default criteria for eval sets without criteria, taken from the tool that defines the format of the set."""

from collections.abc import Mapping
from pathlib import Path

from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core.types import Criterion, EvalSet

_ADK_DEFAULTS = Thresholds(
    DEFAULT_CONFIG,
    Path(),
    dialect="adk",
    criteria=(Criterion("tool_trajectory_avg_score", 1.0), Criterion("response_match_score", 0.8)),
)
_ADK_RS_DEFAULTS = Thresholds(
    DEFAULT_CONFIG,
    Path(),
    criteria=(
        Criterion("adk-rs/tool_trajectory_avg_score", 1.0),
        Criterion("adk-rs/final_response_match_v1", 0.5),
    ),
)
# By Orchestrate's documentation, a simulation succeeds if its journey does. It names no other condition.
_ORCHESTRATE_DEFAULTS = Thresholds(
    DEFAULT_CONFIG, Path(), criteria=(Criterion("orchestrate/journey_success", 1.0),)
)
DEFAULT_THRESHOLDS: Mapping[str, tuple[str, Thresholds]] = {
    "adk": ("Google ADK", _ADK_DEFAULTS),
    "adk-legacy": ("Google ADK", _ADK_DEFAULTS),
    "adk-rs": ("adk-rs", _ADK_RS_DEFAULTS),
    "orchestrate": ("watsonx Orchestrate", _ORCHESTRATE_DEFAULTS),
}
"""(name of the tool, thresholds with the default criteria of the tool), by format of an eval set."""


def find_default_thresholds(eval_set: EvalSet) -> Thresholds | None:
    """Return thresholds with the default criteria of the set's format; None if there are no defaults."""
    return DEFAULT_THRESHOLDS[eval_set.format_name][1] if eval_set.format_name in DEFAULT_THRESHOLDS else None
