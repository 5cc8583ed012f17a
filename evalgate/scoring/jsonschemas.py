"""Checking a value against a JSON Schema; draft 2020-12 unless the schema names another. Reads no network."""

from collections.abc import Mapping
from typing import Any

from evalgate.extras import describe_install

_LONGEST = 300


class ValidatorMissing(RuntimeError):
    """The package that checks schemas is not installed; the text says what to do."""


def check_validator() -> None:
    """Raise ValidatorMissing unless schemas can be checked."""
    try:
        import jsonschema  # noqa: F401  only whether it is there
    except ImportError:
        raise ValidatorMissing(
            f"a criterion with a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
        ) from None


def schema_problem(value: object, schema: object) -> str:
    """What the schema has against the value; "" when it is valid. A broken schema is a problem too.

    Raises:
        ValidatorMissing: `jsonschema` is not installed.
    """
    check_validator()
    from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, (bool, Mapping)):
        return "compile json schema: a schema is an object, true or false"
    kind: Any = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        kind(schema, registry=Registry()).validate(value)
    except SchemaError as error:
        return f"compile json schema: {error.message[:_LONGEST]}"
    except ValidationError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return f"json schema validation failed: at `/{place}`: {error.message[:_LONGEST]}"
    except Unresolvable as error:
        return f"compile json schema: {str(error)[:_LONGEST]} is not in the schema itself"
    except RecursionError:
        return "json schema validation failed: the value or the schema nests too deep"
    return ""
