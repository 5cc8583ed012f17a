"""Types of fields that several sections of a thresholds file share, and the base class of the sections."""

import re
import shlex
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    WithJsonSchema,
)

# Strict: otherwise `off` would be the number 0, and a threshold of 0 lets everything pass.
Unit = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
"""Weight in a mean. The range keeps sums of weights, and shares of them, far from the limits of floats."""
Count = Annotated[int, Strict()]
ReadBareOff = BeforeValidator(lambda value: "off" if value is False else value)
"""Lets `off` be written without quotes in a field with this choice: YAML 1.1 reads a bare `off` as false."""

_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*\*?$"


def _validate_variable_name(value: object) -> object:
    if not isinstance(value, str) or re.match(_NAME_PATTERN, value):
        return value
    name, equals_sign, _ = value.partition("=")
    if equals_sign:  # what follows may be a secret: it is not repeated
        raise ValueError(
            f"must be the name of a variable alone, not `{name}=…`: its value is the environment's"
        )
    raise ValueError(f"must be the name of a variable, as OPENAI_API_KEY, not {value!r}")


EnvironmentName = Annotated[str, Field(pattern=_NAME_PATTERN), BeforeValidator(_validate_variable_name)]


CheckName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]

_ONE_OR_MANY = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


_MOST_RUNS = 1000


def _validate_runs(value: object) -> object:
    if value == "auto" or (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_RUNS
    ):
        return value
    shown = value if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)
    raise ValueError(f"must be `auto` or a whole number from 1 to {_MOST_RUNS}, not {shown}")


Runs = Annotated[
    int | Literal["auto"],
    BeforeValidator(_validate_runs),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": _MOST_RUNS}, {"const": "auto"}]}),
]


class ConfigSection(BaseModel):
    """Base of the sections of a thresholds file; unknown keys are refused."""

    # `defer_build`: most commands validate few sections, and building every validator would slow their start.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _normalize_entry(entry: str) -> str:
    """Convert Google ADK's `package.module.function` to `package.module:function`.

    Return a text with a colon unchanged.

    Raises:
        ValueError: the text has no colon and does not name a module and a function.
    """
    if ":" in entry:
        return entry
    module, dot, function = entry.rpartition(".")
    if not dot or not module or not function:
        raise ValueError(f"must name a function, as `package.module.function`, not {entry!r}")
    return f"{module}:{function}"


Entry = Annotated[str, AfterValidator(_normalize_entry)]


def _validate_command(command: str | tuple[str, ...]) -> str | tuple[str, ...]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError:
        raise ValueError("ends within quotation marks, or with a backslash") from None
    if not words:
        raise ValueError("must not be empty")
    return command


Command = Annotated[str | tuple[str, ...], Field(min_length=1), AfterValidator(_validate_command)]
"""A program and its arguments; one string is split as a shell would."""


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema(_ONE_OR_MANY),
]
