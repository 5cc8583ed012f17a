"""Turning pydantic's findings into problems that a person can act on."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evalgate.errors import Problem
from evalgate.reading.plainvalues import items_of

Location: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of a document down to a value."""

_Shape = TypeVar("_Shape", bound=BaseModel)

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
    "string_pattern_mismatch": "a name of the expected form",
}


def problems_of(
    error: ValidationError,
    *,
    file: str,
    position: Callable[[Location], tuple[int, int]],
    known_keys: Callable[[Location], Iterable[str]] = lambda _: (),
    model: type[BaseModel] | None = None,
    prefix: Location = (),
) -> list[Problem]:
    """Every problem of `error`, each once, in file order.

    `known_keys` names the keys that are allowed at a place, next to those of the `model` that found the
    error, to suggest the one that was meant. `prefix` is where the validated value stands in its file.
    """
    from evalgate.reading.modelkeys import list_keys  # only where something is wrong

    found = {}
    for details in error.errors(include_url=False):
        location = (*prefix, *details["loc"])
        line, column = position(location)
        known = [*known_keys(location[:-1]), *(list_keys(model, details["loc"]) if model else ())]
        problem = Problem(file, line, column, _sentence(details, location, known))
        found[(problem.line, problem.column, problem.message)] = problem
    return [found[key] for key in sorted(found)]


def shaped(
    model: type[_Shape],
    value: object,
    problems: list[Problem],
    *,
    file: str,
    position: Callable[[Location], tuple[int, int]],
    prefix: Location = (),
) -> _Shape | None:
    """`value` as a `model`; None, and what is wrong with it added to `problems`, if it is none.

    `file`, `position` and `prefix` are those of `problems_of`.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems += problems_of(error, file=file, position=position, model=model, prefix=prefix)
        return None


def path_text(location: Location) -> str:
    """`eval_cases[0].conversation` for ("eval_cases", 0, "conversation")."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """` Did you mean `x`?`, or "" when nothing is near."""
    near = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def listed(names: Sequence[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:]))) or "none"


def _sentence(details: ErrorDetails, location: Location, known: Iterable[str]) -> str:
    kind, where = details["type"], f"`{path_text(location)}`" if location else "the file"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        return unknown_key(location, sorted(set(known)))
    return f"{where} {what_is_wrong(details)}"


def unknown_key(location: Location, known: Sequence[str], hint: str = "") -> str:
    """Return the sentence for a key that is none of the known ones, with the one that is meant, or all.

    `hint` is a sentence that knows better what is meant.
    """
    near = hint or did_you_mean(str(location[-1]), known)
    hint = near or (f" Known here: {listed(known)}." if known else "")
    return f"`{path_text(location)}` is not a known key.{hint}"


def what_is_wrong(details: ErrorDetails) -> str:
    """The rest of a sentence that begins with the name of a value."""
    if (kind := details["type"]) in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_described(details['input'])}"
    return _in_own_words(details)


def _in_own_words(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"must say its {context['discriminator']}"
    if kind == "union_tag_invalid":
        said = f"{context['discriminator']}: {context['tag']!r}"
        return f"says {said}, which is none of {context['expected_tags']}"
    if kind in {"string_too_short", "too_short"} and context["min_length"] == 1:
        return "must not be empty"
    if kind in {"literal_error", "enum"}:
        return _not_one_of(context["expected"], details["input"])
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{message[:1].lower()}{message[1:]}"


def _not_one_of(expected: str, value: object) -> str:
    """Return the rest of the sentence for a value that is none of some, which pydantic has put in words."""
    values = re.findall(r"'([^']*)'", expected)
    said = value if isinstance(value, str) else ""
    near = did_you_mean(said, values) or did_you_mean(said.upper(), values)
    return f"should be {expected}, not {_described(value)}{'.' if near else ''}{near}"


def _described(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict) or items_of(value) is not None:
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
