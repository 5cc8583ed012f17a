"""Validate JSON values by a JSON Schema."""

from collections.abc import Callable
from typing import Any, cast

from evalgate.core.installation import describe_install
from evalgate.core.sanitize import shorten_text

_LONGEST_MESSAGE = 160


class SchemaValidatorMissingError(RuntimeError):
    """Error for the missing package `jsonschema`; the text says how to install it."""


def check_schema(schema: object) -> str:
    """Return the reason why `schema` cannot be used as a JSON Schema; "" if it can be used.

    A schema must be an object: `true` and `false`, which accept every value or none, cannot be used. A schema
    may refer only to its own parts and to the schemas of the JSON Schema standard.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    if not isinstance(schema, dict):
        return "it is no object"
    if not isinstance(dialect := schema.get("$schema", ""), str):
        return f"at `/$schema`: {shorten_text(repr(dialect), _LONGEST_MESSAGE)} is not of type 'string'"
    kind = _find_validator_type(schema)
    from jsonschema import SchemaError

    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return f"at `/{place}`: {shorten_text(error.message, _LONGEST_MESSAGE)}"
    return _find_dangling_reference(schema)


def _find_dangling_reference(schema: object) -> str:
    """Return a sentence about a reference to a part that the schema lacks; "" if the schema has all parts.

    No value fits a schema with a dangling reference. In a group of `none_of`, the check would always pass.
    """
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    whole = Resource.from_contents(cast("Any", schema), default_specification=DRAFT202012)
    waiting, seen = [(REGISTRY.resolver_with_root(whole), whole)], set[int]()
    while waiting:
        resolver, part = waiting.pop()
        if not isinstance(part.contents, dict) or id(part.contents) in seen:
            continue
        seen.add(id(part.contents))
        for reference in map(part.contents.get, ("$ref", "$dynamicRef")):
            if not isinstance(reference, str):
                continue
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, TypeError, ValueError):  # TypeError, ValueError: a path into a text or list
                return f"it refers to {shorten_text(reference, _LONGEST_MESSAGE)!r}, which it does not hold"
            target = Resource.from_contents(found.contents, default_specification=DRAFT202012)
            waiting.append((found.resolver, target))
        waiting += [(resolver.in_subresource(each), each) for each in part.subresources()]
    return ""


def build_schema_check(schema: object) -> Callable[[object], str]:
    """Return a function that gets a value, and returns "" if it fits the schema, else a message.

    The message names the place within the value, unless the value as a whole is wrong. `check_schema` must
    have returned "" for `schema`.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    kind = _find_validator_type(schema)
    from jsonschema.exceptions import best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # With an empty registry: a reference to another document must not be fetched from the network.
    validator = kind(schema, registry=Registry())

    def find_complaint(value: object) -> str:
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as missing:
            return (
                f"the schema refers to {shorten_text(str(missing), _LONGEST_MESSAGE)}, which it does not hold"
            )
        except RecursionError:
            return "the value or the schema nests too deep"
        if error is None:
            return ""
        place = error.json_path.removeprefix("$").removeprefix(".")
        message = shorten_text(error.message, _LONGEST_MESSAGE)
        return f"at `{place}`: {message}" if place else message

    return find_complaint


def _find_validator_type(schema: object) -> Any:
    try:
        from jsonschema import Draft202012Validator, validators
    except ImportError:
        raise SchemaValidatorMissingError(
            f"a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
        ) from None
    return validators.validator_for(cast("Any", schema), default=Draft202012Validator)
