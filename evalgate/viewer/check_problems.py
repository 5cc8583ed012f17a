"""Validate the checks of a form with the schema of the thresholds file, and assign problems to fields."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.checks import CheckConditions
from evalgate.config.schema.criteria import CheckConfig
from evalgate.config.schema.field_types import CheckName
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.config_file import parse_yaml
from evalgate.documents.strict_json import Location, read_json
from evalgate.documents.validation_errors import validate_model
from evalgate.viewer.check_draft import DraftCheck

_SCOPE_KEYS = ("ids", "tags")


def find_check_problems(
    drafts: Sequence[DraftCheck],
    checks: Mapping[str, Mapping[str, Any]],
    read_schema: Callable[[str], object],
    named_elsewhere: Mapping[str, str],
) -> dict[str, str]:
    """Return a message for each wrong field of the checks in a form, by the name of the field.

    Args:
        drafts: The checks in the form.
        checks: The checks that were built from the drafts, by name.
        read_schema: Function that returns the JSON Schema in the named file, or raises ValueError.
        named_elsewhere: Names that a check in the form must not have. Maps the name of each check in the
            thresholds file to the place of this check, as `file:line`.
    """
    errors: dict[str, str] = {}
    for at, draft in enumerate(drafts):
        name = draft.name.strip()
        prefix = f"k{at}"
        for field, message in _find_problems(prefix, draft, checks[name], read_schema):
            errors[field] = f"{errors[field]}; {message}" if field in errors else message
        if message := _check_name(name, named_elsewhere):
            errors[f"{prefix}.name"] = message
    return errors


def list_thresholds_checks(folder: Path, thresholds_file: str | None) -> dict[str, str]:
    """Return the name of each check in a project's thresholds file, with its place as `file:line`.

    Return {} if there is no thresholds file, or if it is invalid. `thresholds_file` is the file that the
    command line names; None: the file is searched in `folder`.
    """
    path = folder / thresholds_file if thresholds_file else find_thresholds_file(folder)
    try:
        thresholds = load_thresholds(path, path.name) if path else None
    except InvalidInputError:  # a run reports the problems of the thresholds file
        return {}
    if thresholds is None:
        return {}
    return {
        name: f"{thresholds.file}:{thresholds.find_position(('checks', name))[0]}"
        for name in thresholds.config.checks
    }


def read_schema_file(folder: Path, name: str) -> object:
    """Return the JSON Schema in the file `name` in `folder`, the folder of the case notes.

    Raises:
        ValueError: the file cannot be read, or is not JSON.
    """
    try:
        return read_json(folder / name, name).value
    except InvalidInputError as error:
        raise ValueError(f"names a file that cannot be used: {error}") from None


def _check_name(name: str, named_elsewhere: Mapping[str, str]) -> str:
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(CheckName).validate_python(name)
    except ValidationError:
        return "must begin with a letter, a digit or _, and have only these, dots and hyphens"
    where = named_elsewhere.get(name)
    return f"is also the name of a check in {where}: choose another one" if where else ""


def _find_problems(
    prefix: str, draft: DraftCheck, section: Mapping[str, Any], read_schema: Callable[[str], object]
) -> Iterator[tuple[str, str]]:
    """Yield (form field, message) for each problem of a check.

    `prefix` is the part of the form to which the check belongs, such as `k0`. `section` is the check
    that was built from `draft`.
    """
    locations: list[Location] = []
    problems: list[Problem] = []

    def note_location(location: Location) -> tuple[int, int]:
        locations.append(location)
        return len(locations), 0

    config = validate_model(CheckConfig, dict(section), problems, file="", position=note_location)
    if config is not None:
        options = config.model_extra or {}
        validate_model(
            CheckConditions, options, problems, file="", position=note_location, context=read_schema
        )
    for problem in problems:
        yield _find_field(prefix, draft, locations[problem.line - 1], problem.message)
    for key in _SCOPE_KEYS:
        if key in section:
            message = f"`{key}` belongs into a thresholds file: this check is for its case only"
            yield _find_field(prefix, draft, (key,), message)


def _find_field(prefix: str, draft: DraftCheck, location: Location, message: str) -> tuple[str, str]:
    """Return (form field, message) for a problem at the path `location` in a check.

    `prefix` is the begin of the names of the check's fields, such as `k0`. If the faulty condition is in the
    check's field for YAML, the message begins with the line number.
    """
    field = ".".join(map(str, location[:2]))
    if field in draft.fields:
        return f"{prefix}.{field}", message
    for at, each in enumerate(draft.values):
        path = ("args", each.tool.strip()) if each.tool.strip() else ("state",)
        if location[: len(path) + 1] == (*path, each.path.strip()):
            return f"{prefix}.a{at}.value", message
    try:
        document = parse_yaml(draft.rest, "")
    except InvalidInputError:
        return f"{prefix}.rest", message
    if isinstance(document.value, dict) and location and location[0] in document.value:
        return f"{prefix}.rest", f"line {document.find_position(location)[0]}: {message}"
    group = (name for name in draft.fields if location and name.startswith(f"{location[0]}."))
    return f"{prefix}.{next(group, 'name')}", message
