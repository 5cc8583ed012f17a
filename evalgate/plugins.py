"""The catalogue: every plugin by the name that users write, one line each.

Plugins are named by module path and imported when they are used, so that a run loads only what it needs.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from pydantic import ValidationError

from evalgate.config import NEWEST_ADK, parse_adk_version
from evalgate.errors import InvalidInput, Problem
from evalgate.model import Criterion
from evalgate.protocols import EvalFormat, Metric, Reporter
from evalgate.validation import did_you_mean, listed, path_text

FORMATS: Mapping[str, str] = {
    "adk": "evalgate.formats.adk:AdkEvalSets",
    "adk-legacy": "evalgate.formats.adk_legacy:AdkLegacyLists",
}

METRICS: Mapping[str, str] = {
    "tool_trajectory_avg_score": "evalgate.metrics.tool_trajectory:tool_trajectory",
    "response_match_score": "evalgate.metrics.response_match:response_match",
}

AGENTS: Mapping[str, str] = {
    "python": "evalgate.agents.python:python_agent",
    "command": "evalgate.agents.command:command_agent",
    "replay": "evalgate.agents.replay:replay_agent",
}

REPORTERS: Mapping[str, str] = {
    "json": "evalgate.reporters.results_json:ResultsJson",
    "junit": "evalgate.reporters.junit:JUnit",
    "comment": "evalgate.reporters.comment:Comment",
}
