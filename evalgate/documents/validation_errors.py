"""Convert pydantic's errors to problems with line, column and remedy; find invalid and repeated ids."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evalgate.core.errors import Problem
from evalgate.core.formatting import join_quoted
from evalgate.documents.strict_json import Location, as_sequence

_Model = TypeVar("_Model", bound=BaseModel)

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "finite_number": "a finite number",
}


def translate_validation_error(
    error: ValidationError,
    *,
    file: str,
    position: Callable[[Location], tuple[int, int]],
    known_keys: Callable[[Location], Iterable[str]] = lambda _: (),
    model: type[BaseModel] | None = None,
    prefix: Location = (),
) -> list[Problem]:
    """Return the problems that a pydantic error holds, each once, in file order.

    If items of a list are invalid, pydantic may also call the list too short; this error is left out.

    Args:
        error: Error of the validation.
        file: Name of the file for the problems.
        position: Function that returns line and column of a location in the file.
        known_keys: Function that returns further keys that the object at a location in the file may have, in
            addition to those of `model`. Messages about unknown keys suggest one of them.
        model: Model that the value was validated with; None: only `known_keys` are suggested.
        prefix: Location of the validated value in the file.
    """
    from evalgate.documents.model_keys import list_keys  # most files have no errors

    found, errors = {}, error.errors(include_url=False)
    parents = {details["loc"][:end] for details in errors for end in range(len(details["loc"]))}
    for details in errors:
        if details["type"] == "too_short" and details["loc"] in parents:
            continue  # it is only empty without its wrong items
        location = (*prefix, *details["loc"])
        if location[-1:] == ("[key]",):  # pydantic's mark for an error of a key itself
            location = location[:-1]
        line, column = position(location)
        known = [*known_keys(location[:-1]), *(list_keys(model, details["loc"]) if model else ())]
        problem = Problem(file, line, column, _format_message(details, location, known))
        found[(problem.line, problem.column, problem.message)] = problem
    return [found[key] for key in sorted(found)]


def validate_model(
    model: type[_Model],
    value: object,
    problems: list[Problem],
    *,
    file: str,
    position: Callable[[Location], tuple[int, int]],
    prefix: Location = (),
    context: object = None,
) -> _Model | None:
    """Return an instance of `model` for `value`; if `value` is invalid, add to `problems` and return None.

    `file` is the name of the file in the problems, and `prefix` the location of `value` in the file.
    `position` returns line and column of a location. `context` is passed to pydantic.
    """
    try:
        return model.model_validate(value, context=context)
    except ValidationError as error:
        problems += translate_validation_error(
            error, file=file, position=position, model=model, prefix=prefix
        )
        return None


def format_location(location: Location) -> str:
    """Return a location as text: ("eval_cases", 0, "conversation") as `eval_cases[0].conversation`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _format_message(details: ErrorDetails, location: Location, known: Iterable[str]) -> str:
    kind, where = details["type"], f"`{format_location(location)}`" if location else "the file"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        return describe_unknown_key(location, sorted(set(known)))
    return f"{where} {describe_error_details(details)}"


def describe_unknown_key(location: Location, known: Sequence[str], hint: str = "") -> str:
    """Return a sentence about an unknown key, with the nearest known key or a list of all known keys.

    `location` ends with the unknown key. A `hint`, which must begin with a blank, replaces the known keys.
    """
    from evalgate.core.did_you_mean import did_you_mean

    near = hint or did_you_mean(str(location[-1]), known)
    hint = near or (f" Known here: {join_quoted(known)}." if known else "")
    return f"`{format_location(location)}` is not a known key.{hint}"


def describe_error_details(details: ErrorDetails) -> str:
    """Return a sentence about one pydantic error, without its subject: "must be a list, not 'a'"."""
    if (kind := details["type"]) in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_describe_value(details['input'])}"
    return _describe_other_error(details)


def _describe_other_error(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"must say its {context['discriminator']}"
    if kind == "union_tag_invalid":
        written = f"{context['discriminator']}: {context['tag']!r}"
        return f"says {written}, which is none of {context['expected_tags']}"
    if kind == "string_pattern_mismatch":
        return f"must match `{context['pattern']}`, unlike {_describe_value(details['input'])}"
    if kind in {"string_too_short", "too_short"} and context["min_length"] == 1:
        return "must not be empty"
    if kind in {"literal_error", "enum"}:
        return _describe_wrong_choice(context["expected"], details["input"])
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{message[:1].lower()}{message[1:]}"


def _describe_wrong_choice(expected: str, value: object) -> str:
    """Return `should be 'a' or 'b', not 'c'` for a value that is not one of the expected values.

    `expected` is pydantic's text for the expected values, such as `'a' or 'b'`. The nearest one is suggested.
    """
    values = re.findall(r"'([^']*)'", expected)
    written = value if isinstance(value, str) else ""
    from evalgate.core.did_you_mean import did_you_mean

    near = did_you_mean(written, values) or did_you_mean(written.upper(), values)
    return f"should be {expected}, not {_describe_value(value)}{'.' if near else ''}{near}"


def _describe_value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict) or as_sequence(value) is not None:
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


_control_character = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def validate_id(name: str) -> str:
    """Return `name` if it is a valid id of a case or an eval set.

    Paths, inner blanks and letters of all scripts are valid, because real files have such ids.

    Raises:
        ValueError: `name` is blank or holds control characters.
    """
    if not name.strip():
        raise ValueError("must not be empty")
    if _control_character.search(name):
        raise ValueError(f"must not hold control characters: {name!r}")
    return name


def is_valid_id(name: str) -> bool:
    """Return True if `name` is a valid id: it is not blank and holds no control characters."""
    try:
        validate_id(name)
    except ValueError:
        return False
    return True


Id: TypeAlias = Annotated[str, AfterValidator(validate_id)]
"""The id of a case or an eval set, for pydantic models of files."""


def list_case_names(eval_set_id: str, path: str, eval_id: str) -> tuple[str, str, str]:
    """Return the names by which a thresholds file may refer to a case: `id`, `eval set:id` and `file:id`."""
    return eval_id, f"{eval_set_id}:{eval_id}", f"{path}:{eval_id}"


def find_repeated_ids(
    ids: Iterable[tuple[object, Location]], *, file: str, position: Callable[[Location], tuple[int, int]]
) -> Iterator[Problem]:
    """Yield a problem for each id that equals an earlier one; ids that are not text are skipped.

    `ids` are pairs of an id and its location; `position` returns line and column of a location.
    """
    first: dict[str, Location] = {}
    for name, location in ids:
        if isinstance(name, str) and first.setdefault(name, location) != location:
            line, _ = position(first[name])
            message = f"{name!r} is the id of another case already{f', in line {line}' if line else ''}"
            yield Problem(file, *position(location), message)
