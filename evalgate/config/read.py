"""Finds and reads a thresholds file."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import (
    BaseModel,
    ValidationError,
)

from evalgate.budget import Budget
from evalgate.config.criteria import AdkCriterionConfig, CriterionConfig, CustomMetricConfig
from evalgate.config.gate import GateConfig
from evalgate.config.thresholds import Config, Thresholds
from evalgate.errors import InvalidInput, Problem
from evalgate.judge.settings import JudgeConfig
from evalgate.model import Criterion
from evalgate.reading.configfile import ConfigDocument, read_config_document
from evalgate.reading.validation import Location, problems_of
from evalgate.scoring.ranges import Range, out_of_range
from evalgate.simulation.settings import UserConfig
from evalgate.system.files import is_readable_name, read_text

DEFAULT_NAMES = ("evalgate.yaml", "evalgate.yml", "evalgate.toml", "evalgate.json", "pyproject.toml")
"""Where a thresholds file is looked for, in order; pyproject.toml counts with a [tool.evalgate] table."""
OUR_TABLE = "[tool.evalgate"
"""How the tables of a pyproject.toml begin that make it a thresholds file."""
_WITHOUT_A_FILE = "`evalgate init` writes a thresholds file."


def find_thresholds_file(folder: Path) -> Path | None:
    """The thresholds file in `folder`, by its usual names."""
    for name in DEFAULT_NAMES:
        path = folder / name
        if _has_our_table(path) if name == "pyproject.toml" else is_readable_name(path):
            return path
    return None


def _has_our_table(pyproject: Path) -> bool:
    return pyproject.is_file() and OUR_TABLE in read_text(pyproject, errors="replace")


def load_thresholds(path: Path, shown_as: str) -> Thresholds:
    """Read a thresholds file of ours (YAML, TOML, JSON), or one of Google ADK or tRPC-Agent-Go as it is.

    Raises:
        InvalidInput: with every problem of the file.
    """
    document = read_config_document(path, shown_as, otherwise=_WITHOUT_A_FILE)
    if path.suffix == ".json" and isinstance(document.value, list):
        from evalgate.reading.trpcmetrics import criterion_position, trpc_criteria

        place = partial(criterion_position, document)
        return Thresholds(Config(), path.parent, shown_as, "trpc", trpc_criteria(document), place)
    if _is_adk_test_config(path, document.value):
        return _adk_thresholds(document, path.parent)
    value = document.value
    problems = list(out_of_range(value, shown_as, document.position))
    try:
        config = Config.model_validate(value)
    except ValidationError as error:
        _refuse_dataset(path, shown_as)
        raise InvalidInput(sorted([*_problems(error, document), *problems])) from None
    if problems:
        raise InvalidInput(problems)
    criteria = _criteria(config.criteria, config)
    return Thresholds(config, path.parent, shown_as, "evalgate", criteria, document.position)


def _refuse_dataset(path: Path, shown_as: str) -> None:
    """Say how an eval set is made of another tool's file, as a promptfoo config.

    Raises:
        InvalidInput: it is one.
    """
    from evalgate.reading.datasets import way_forward

    if found := way_forward(path, shown_as):
        raise InvalidInput([Problem(shown_as, 1, 1, found)]) from None


def _is_adk_test_config(path: Path, value: object) -> bool:
    # Ours says `version` or at least names something that only ours has; ADK's has criteria and little else.
    own = {
        "version",
        "eval_sets",
        "agent",
        "runs",
        "gate",
        "cases",
        "tool_mocks",
        "adk_version",
        "judge",
        "user",
    }
    return path.suffix == ".json" and isinstance(value, dict) and not own & value.keys()


def _adk_thresholds(document: ConfigDocument, folder: Path) -> Thresholds:
    from evalgate.config.adk import AdkTestConfig

    try:
        found = AdkTestConfig.model_validate(document.value)
    except ValidationError as error:
        raise InvalidInput(_problems(error, document)) from None
    custom = {
        name: CustomMetricConfig(entry=metric.code_config.name)
        for name, metric in (found.custom_metrics or {}).items()
    }
    config = Config(custom_metrics=custom, user=found.user.as_ours() if found.user else None)
    return Thresholds(
        config, folder, document.path, "adk", _criteria(found.criteria, config), document.position
    )


def _criteria(configs: Mapping[str, AdkCriterionConfig], rules: Config) -> tuple[Criterion, ...]:
    return tuple(_criterion(name, config, rules.range_of(name)) for name, config in configs.items())


def _criterion(name: str, config: AdkCriterionConfig, known: Range) -> Criterion:
    criterion = Criterion(
        name, config.threshold, dict(config.model_extra or {}), range=(known.low, known.high)
    )
    if not isinstance(config, CriterionConfig):
        return criterion
    return replace(
        criterion,
        reliability=config.reliability,
        rule=config.threshold_rule,
        max_regression=config.max_regression,
        min_mean=config.min_mean,
    )


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "gate": GateConfig,
    "judge": JudgeConfig,
    "user": UserConfig,
    "budget": Budget,
}


def _known_keys(location: Location) -> Iterable[str]:
    if not location:
        return Config.model_fields
    section = _SECTIONS.get(str(location[0])) if len(location) == 1 else None
    return section.model_fields if section else ()


def _problems(error: ValidationError, document: ConfigDocument) -> list[Problem]:
    return problems_of(error, file=document.path, position=document.position, known_keys=_known_keys)
