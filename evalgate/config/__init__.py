"""The thresholds file: what is evaluated, with which agent, what it must reach. Every default stands here."""

from evalgate.config.adkversion import NEWEST_ADK, parse_adk_version
from evalgate.config.agent import AgentConfig
from evalgate.config.cases import CaseRule, ToolMockConfig
from evalgate.config.criteria import CriterionConfig, CustomMetricConfig
from evalgate.config.executor import LOCAL, ExecutorConfig
from evalgate.config.gate import DEFAULT_BASELINE, GateConfig, StatisticsConfig
from evalgate.config.read import (
    DEFAULT_NAMES,
    OUR_TABLE,
    InvalidThresholdsError,
    find_thresholds_file,
    load_thresholds,
)
from evalgate.config.thresholds import Config, Thresholds

__all__ = [
    "DEFAULT_BASELINE",
    "DEFAULT_NAMES",
    "LOCAL",
    "NEWEST_ADK",
    "OUR_TABLE",
    "AgentConfig",
    "CaseRule",
    "Config",
    "CriterionConfig",
    "CustomMetricConfig",
    "ExecutorConfig",
    "GateConfig",
    "InvalidThresholdsError",
    "StatisticsConfig",
    "Thresholds",
    "ToolMockConfig",
    "find_thresholds_file",
    "load_thresholds",
    "parse_adk_version",
]
