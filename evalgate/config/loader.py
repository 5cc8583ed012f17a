"""Find and read the thresholds file of a folder."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from evalgate.config.schema.criteria import (
    CHECK,
    AdkCriterionConfig,
    CheckConfig,
    CriterionConfig,
    CustomMetricConfig,
    find_out_of_range_values,
)
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Config, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.score_ranges import Range
from evalgate.core.types import Criterion
from evalgate.documents.config_file import ConfigDocument, read_config_document
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.system.files import is_taken, read_text

DEFAULT_NAMES = ("evalgate.yaml", "evalgate.yml", "evalgate.toml", "evalgate.json", "pyproject.toml")
"""Names of a thresholds file, in search order. A pyproject.toml counts only with a [tool.evalgate] table."""
OUR_TABLE = "[tool.evalgate"
"""Start of the table headers that make a pyproject.toml a thresholds file."""
# `config` must not import integrations, so their functions are loaded by name, each with its type for mypy.
# Callers of `load_thresholds` cannot pass them in, because only the content shows which tool a file is for.
_DescribeIgnoredKeys: TypeAlias = Callable[[ConfigDocument], tuple[str, ...]]
_ADK_TEST_CONFIG = "evalgate.integrations.adk.config:AdkTestConfig"

_WITHOUT_A_FILE = "`evalgate init` writes a thresholds file."


def find_thresholds_file(folder: Path) -> Path | None:
    """Return the path of the first name in `DEFAULT_NAMES` that exists in `folder`; None if none exists.

    A folder or a broken link with such a name is returned, too, and reading it then raises an error. If it
    were skipped, the defaults of another tool would replace the user's thresholds unnoticed. A pyproject.toml
    counts only if it is a file with a table for evalgate.

    Raises:
        OSError: a pyproject.toml cannot be read.
    """
    for name in DEFAULT_NAMES:
        path = folder / name
        if name == "pyproject.toml":
            # Searched as text: errors in a pyproject.toml without our table are not ours to report.
            is_ours = path.is_file() and OUR_TABLE in read_text(path, errors="replace")
        else:
            is_ours = is_taken(path)
        if is_ours:
            return path
    return None


class InvalidThresholdsError(InvalidInputError):
    """Error for an invalid thresholds file; `rest` has the valid parts of the file."""

    def __init__(self, problems: Iterable[Problem], rest: Thresholds | None) -> None:
        """Store the problems and the valid parts of the file. `rest` is None if no part can be used."""
        super().__init__(problems)
        self.rest = rest


def load_thresholds(path: Path, shown_as: str) -> Thresholds:
    """Read a thresholds file of evalgate (YAML, TOML or JSON), Google ADK or tRPC-Agent-Go.

    `shown_as` is the path of the file for messages.

    Raises:
        InvalidThresholdsError: the content is invalid. The error has every problem and the valid parts of the
            file.
        InvalidInputError: the file cannot be read or parsed, or is a dataset of another tool.
    """
    document = read_config_document(path, shown_as, otherwise=_WITHOUT_A_FILE)
    if path.suffix == ".json" and isinstance(document.value, list):
        return _load_trpc_file(document, path.parent)
    if _is_adk_test_config(path, document.value):
        return _load_adk_file(document, path.parent)
    return _load_own_file(document, path)


def load_thresholds_or_default(folder: Path, thresholds_file: str | None) -> Thresholds:
    """Return the thresholds of `thresholds_file`, which is relative to `folder`.

    If `thresholds_file` is None, the file that `find_thresholds_file` finds in `folder` is read. If there is
    no such file, return the defaults.

    Raises:
        InvalidInputError: the file cannot be read, is invalid, or is a dataset of another tool. The error
            has every problem.
    """
    path = folder / thresholds_file if thresholds_file else find_thresholds_file(folder)
    return load_thresholds(path, thresholds_file or path.name) if path else Thresholds(DEFAULT_CONFIG, folder)


def _load_trpc_file(document: ConfigDocument, folder: Path) -> Thresholds:
    """Build thresholds from a `.metrics.json` of tRPC-Agent-Go, which is a list of criteria.

    Raises:
        InvalidThresholdsError: a criterion is invalid.
    """
    parse_trpc_criteria: Callable[[ConfigDocument], tuple[Criterion, ...]] = plugin_registry.load_object(
        "evalgate.integrations.trpc.metrics_file:parse_trpc_criteria"
    )
    describe_ignored_trpc_keys: _DescribeIgnoredKeys = plugin_registry.load_object(
        "evalgate.integrations.trpc.metrics_file:describe_ignored_trpc_keys"
    )
    find_criterion_position: Callable[[ConfigDocument, Location], tuple[int, int]] = (
        plugin_registry.load_object("evalgate.integrations.trpc.metrics_file:find_criterion_position")
    )
    find_position = partial(find_criterion_position, document)
    thresholds = Thresholds(DEFAULT_CONFIG, folder, document.path, "trpc", find_position=find_position)
    try:
        criteria = parse_trpc_criteria(document)
        return replace(thresholds, criteria=criteria, notices=describe_ignored_trpc_keys(document))
    except InvalidInputError as error:
        criteria = tuple(_iter_valid_trpc_criteria(document, parse_trpc_criteria))
        raise InvalidThresholdsError(error.problems, replace(thresholds, criteria=criteria)) from None


def _load_adk_file(document: ConfigDocument, folder: Path) -> Thresholds:
    """Build the thresholds from Google ADK's `test_config.json`.

    Raises:
        InvalidThresholdsError: the content is invalid.
    """
    adk_test_config: type[BaseModel] = plugin_registry.load_object(_ADK_TEST_CONFIG)
    try:
        return _build_adk_thresholds(document, folder)
    except ValidationError as error:
        rest = _read_valid_rest(document, error, partial(_build_adk_thresholds, folder=folder))
        raise InvalidThresholdsError(_translate_errors(error, document, adk_test_config), rest) from None


def _load_own_file(document: ConfigDocument, path: Path) -> Thresholds:
    """Build the thresholds from a file with evalgate's own sections.

    Raises:
        InvalidThresholdsError: the content is invalid.
        InvalidInputError: the file is a dataset of another tool.
    """
    problems = list(find_out_of_range_values(document.value, document.path, document.find_position))
    try:
        thresholds = _build_own_thresholds(document, path.parent)
    except ValidationError as error:
        _refuse_dataset(path, document.path)
        rest = _read_valid_rest(document, error, partial(_build_own_thresholds, folder=path.parent))
        raise InvalidThresholdsError(sorted([*_translate_errors(error, document), *problems]), rest) from None
    if problems:
        raise InvalidThresholdsError(problems, thresholds)
    return thresholds


def parse_thresholds(
    value: Mapping[str, object],
    folder: Path,
    shown_as: str = "",
    find_position: Callable[[Location], tuple[int, int]] = lambda _: (0, 0),
) -> Thresholds:
    """Build thresholds from a mapping with the sections of a thresholds file.

    Args:
        value: The sections, such as `criteria`.
        folder: Folder that paths in the sections are relative to.
        shown_as: Name of the value in messages.
        find_position: Function that returns line and column (from 1) of a place in the sections, for
            messages. (0, 0) means that they are not known, as for a mapping that was not read from a file.

    Raises:
        InvalidInputError: a section is invalid; the error lists every problem.
    """
    document = ConfigDocument(shown_as, value, find_position)
    problems = list(find_out_of_range_values(value, shown_as, document.find_position))
    try:
        thresholds = _build_own_thresholds(document, folder)
    except ValidationError as error:
        problems = [*_translate_errors(error, document), *problems]
    if problems:
        raise InvalidInputError(sorted(problems))
    return thresholds


def parse_adk_config(value: Mapping[str, object], folder: Path) -> Thresholds:
    """Build thresholds from the content of a `test_config.json`, or of Google ADK's `EvalConfig`.

    Paths in `value` are relative to `folder`.

    Raises:
        InvalidInputError: the content is invalid; the error lists every problem.
    """
    document = ConfigDocument("eval_config", value, lambda _: (0, 0))
    try:
        return _build_adk_thresholds(document, folder)
    except ValidationError as error:
        model: type[BaseModel] = plugin_registry.load_object(_ADK_TEST_CONFIG)
        raise InvalidInputError(_translate_errors(error, document, model)) from None


def _build_own_thresholds(document: ConfigDocument, folder: Path) -> Thresholds:
    config = Config.model_validate(document.value)
    checks = {f"check/{name}": check for name, check in config.checks.items()}
    criteria = (*_build_criteria(config.criteria, config), *_build_criteria(checks, config))
    return Thresholds(config, folder, document.path, "evalgate", criteria, document.find_position)


def _iter_valid_trpc_criteria(
    document: ConfigDocument, parse_criteria: Callable[[ConfigDocument], tuple[Criterion, ...]]
) -> Iterator[Criterion]:
    for item in document.value if isinstance(document.value, list) else ():
        try:
            yield from parse_criteria(replace(document, value=[item]))
        except InvalidInputError:
            continue


def _read_valid_rest(
    document: ConfigDocument, error: ValidationError, read: Callable[[ConfigDocument], Thresholds]
) -> Thresholds | None:
    """Return the thresholds of a file without its invalid parts, or None if the rest is still invalid.

    `error` names the invalid parts. `read` builds the thresholds from a document.
    """
    # The valid rest serves to check the eval sets, so that one command reports the problems of both.
    value = copy.deepcopy(document.value)
    for found in error.errors(include_url=False):
        _remove_invalid(value, found["loc"], is_unknown=found["type"] == "extra_forbidden")
    try:
        return read(replace(document, value=value))
    except ValidationError:
        return None


def _remove_invalid(value: object, location: Location, *, is_unknown: bool) -> None:
    """Remove the invalid part at `location` from `value`, the decoded content of a file.

    Usually the whole section with the invalid part is removed. There are three exceptions:

    - Of `custom_metrics`, only the invalid metric is removed, with its criterion.
    - In a criterion, only the invalid option is removed, and a missing threshold becomes 1.0.
    - If `is_unknown` is True, the part is a key that the format does not know. Then only this key is
      removed. But if the key is within a list, the whole section is removed.
    """
    if not isinstance(value, dict) or not location:
        return
    criteria = value.get("criteria")
    if location[0] == "criteria" and isinstance(criteria, dict) and len(location) > 1:
        # Remove only the invalid option of a criterion, or all common options if `location` has no option.
        own = criteria.get(location[1])
        wrong = location[2:3] or tuple(CriterionConfig.model_fields)
        kept = {key: each for key, each in own.items() if key not in wrong} if isinstance(own, dict) else {}
        criteria[location[1]] = {"threshold": 1.0, **kept}
    elif is_unknown and not any(isinstance(part, int) for part in location):
        # Remove only the unknown key, because the rest of its section may be valid.
        for part in location[:-1]:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict):
            value.pop(location[-1], None)
    elif location[0] == "custom_metrics" and len(location) > 1:
        # With its criterion, which would be one of an unknown metric. Errors of `criteria` come before.
        for section in (value.get("custom_metrics"), criteria):
            if isinstance(section, dict):
                section.pop(location[1], None)
    else:
        value.pop(location[0], None)


def _refuse_dataset(path: Path, shown_as: str) -> None:
    """Raise an error if the file is a dataset of another tool, such as a promptfoo configuration.

    Raises:
        InvalidInputError: the file is such a dataset. The message suggests how to convert it.
    """
    suggest_conversion: Callable[[Path, str], str] = plugin_registry.load_object(
        "evalgate.datasets.foreign_datasets:suggest_conversion"
    )

    if found := suggest_conversion(path, shown_as):
        raise InvalidInputError([Problem(shown_as, 1, 1, found)]) from None


def _is_adk_test_config(path: Path, value: object) -> bool:
    # A file of Google ADK has `criteria`, and no key that only evalgate has.
    own = Config.model_fields.keys() - {"criteria", "custom_metrics"}
    may_be_googles = path.suffix == ".json" and path.name != "evalgate.json"
    return may_be_googles and isinstance(value, dict) and not own & value.keys()


def _build_adk_thresholds(document: ConfigDocument, folder: Path) -> Thresholds:
    adk_test_config = plugin_registry.load_object(_ADK_TEST_CONFIG)
    describe_ignored_adk_keys: _DescribeIgnoredKeys = plugin_registry.load_object(
        "evalgate.integrations.adk.config:describe_ignored_adk_keys"
    )

    found = adk_test_config.model_validate(document.value)
    custom = {
        name: CustomMetricConfig(entry=metric.code_config.name)
        for name, metric in (found.custom_metrics or {}).items()
    }
    user = found.user.to_user_config() if found.user else None
    config = DEFAULT_CONFIG.model_copy(update={"custom_metrics": custom, "user": user})
    return Thresholds(
        config,
        folder,
        document.path,
        "adk",
        _build_criteria(found.criteria, config),
        notices=describe_ignored_adk_keys(document),
        find_position=document.find_position,
    )


def _build_criteria(
    sections: Mapping[str, AdkCriterionConfig | CheckConfig], config: Config
) -> tuple[Criterion, ...]:
    return tuple(
        _build_criterion(name, section, config.get_score_range(name)) for name, section in sections.items()
    )


def _build_criterion(name: str, config: AdkCriterionConfig | CheckConfig, known: Range) -> Criterion:
    criterion = Criterion(name, config.threshold, dict(config.model_extra or {}), range=known)
    if not isinstance(config, CriterionConfig | CheckConfig):
        return criterion
    return replace(
        criterion,
        evaluator=CHECK if isinstance(config, CheckConfig) else "",
        reliability=config.reliability,
        rule=config.threshold_rule,
        max_regression=config.max_regression,
        min_mean=config.min_mean,
        gates=config.gates,
    )


def _translate_errors(
    error: ValidationError, document: ConfigDocument, model: type[BaseModel] = Config
) -> list[Problem]:
    return translate_validation_error(error, file=document.path, position=document.find_position, model=model)


def add_env_files(
    config: Config, environ: Mapping[str, str], folder: Path
) -> tuple[Config, Mapping[str, str]]:
    """Return (config, environment) with the variables of the agent's env files added to both.

    The names are added to `agent.env`, so that the agent gets these variables. A value in a file replaces the
    value of the same name in `environ`. Paths of env files are relative to `folder`, the working folder.

    Raises:
        InvalidInputError: an env file cannot be read, or has an invalid line.
    """
    if config.agent is None or not config.agent.env_file:
        return config, environ
    from evalgate.documents.env_file import read_env_files

    values = read_env_files(config.agent.env_file, folder)
    agent = config.agent.model_copy(update={"env": tuple(dict.fromkeys((*config.agent.env, *values)))})
    return config.model_copy(update={"agent": agent}), {**environ, **values}
