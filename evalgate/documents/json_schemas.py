"""Validate JSON values by a JSON Schema."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

from evalgate.core.installation import describe_install
from evalgate.core.sanitize import shorten_text
from evalgate.documents.re2_patterns import InvalidPatternError, RegexEngineMissingError, has_regex_match

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
    kind = find_validator_type(schema)
    from jsonschema import SchemaError

    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return f"at `/{place}`: {shorten_text(error.message, _LONGEST_MESSAGE)}"
    return _find_dangling_reference(schema)


def _find_dangling_reference(schema: object) -> str:
    """Return a sentence about a `$ref` or `$dynamicRef` without a target; "" if all have a target.

    No value fits a schema with a dangling reference. In `none_of` of `checks`, such a schema would make the
    check always pass.
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
    """Return a function that validates a value: it returns "" if the value fits the schema, else a message.

    The message names the place within the value, unless the value as a whole is wrong. `check_schema` must
    have returned "" for `schema`.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    kind = find_validator_type(schema)
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


def find_validator_type(schema: object) -> Any:
    """Return the validator class for the draft in the schema's `$schema`; the default is draft 2020-12.

    The class matches regular expressions with RE2, in linear time, because an agent chooses the texts.
    Python's `re` is used in three cases: RE2 refuses the pattern (such as a look-ahead), RE2 is not
    installed, or `unevaluatedProperties` depends on the pattern.

    Raises:
        SchemaValidatorMissingError: `jsonschema` is not installed.
    """
    try:
        from jsonschema import Draft202012Validator, validators
    except ImportError:
        raise SchemaValidatorMissingError(
            f"a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
        ) from None
    kind: Any = validators.validator_for(cast("Any", schema), default=Draft202012Validator)
    return _extend_validator_type(kind)


@lru_cache(maxsize=8)
def _extend_validator_type(kind: Any) -> Any:
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def check_pattern(validator: Any, pattern: str, value: object, schema: object) -> Iterator[Any]:
        del schema
        if validator.is_type(value, "string") and not _has_match(pattern, str(value)):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    def check_pattern_properties(validator: Any, rules: Any, value: Any, schema: object) -> Iterator[Any]:
        del schema
        for pattern, rule in rules.items() if validator.is_type(value, "object") else ():
            for name, item in value.items():
                if _has_match(pattern, name):
                    yield from validator.descend(item, rule, path=name, schema_path=pattern)

    def check_additional(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties", ())
        if patterns and validator.is_type(value, "object"):
            value = {
                name: item
                for name, item in value.items()
                if not any(_has_match(pattern, name) for pattern in patterns)
            }
            schema = {key: item for key, item in schema.items() if key != "patternProperties"}
        yield from kind.VALIDATORS["additionalProperties"](validator, rule, value, schema) or ()

    checks = {
        "pattern": check_pattern,
        "patternProperties": check_pattern_properties,
        "additionalProperties": check_additional,
    }
    return cast("Any", extend)(kind, checks)


def _has_match(pattern: str, text: str) -> bool:
    try:
        return has_regex_match(pattern, text)
    except (InvalidPatternError, RegexEngineMissingError):
        return re.search(pattern, text) is not None
