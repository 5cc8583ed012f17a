"""Represent the checks of a case as the texts of a form: common conditions have fields, all others are YAML.

A condition stays in the YAML if its field cannot hold it: for example, a list of lines cannot hold a text
with a line break. So saving an unchanged form changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import yaml

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import ToolCall
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.yaml_edits import dump_inline
from evalgate.viewer.forms import Form, FormFields, normalize_lines

LINES = {
    ("tools", "require"): "Tools that must be called",
    ("tools", "forbid"): "Tools that must not be called",
    ("tools", "order"): "Tools that must be called in this order",
    ("tools", "only"): "Tools that may be called, and no others",
    ("response", "contains"): "Texts that a response must contain",
    ("response", "not_contains"): "Texts that no response may contain",
}
"""Labels of conditions that are lists of texts, by path. The field has one text on each line."""
COUNTS = {("tools", "max"): "Most calls", ("tools", "min"): "Fewest calls"}
"""Labels of conditions with a number for each tool, by path. The field has lines such as `search: 3`."""
SINGLE = {("response", "matches"): "Regular expression (RE2) that a response must match"}
"""Labels of conditions that are a single text, by path."""
TESTS = ("equals", "contains", "matches", "approx", "one_of", "any", "json_schema", "semantic")
"""Names of the conditions on a single value. The value is an argument of a call, or a key of the state."""
_TEXT_TESTS = frozenset({"matches", "semantic"})
_NO_GLOB = re.compile(r"([*?\[])")


@dataclass(slots=True)
class DraftValue:
    """Condition on an argument of a tool's calls, or on a key of the session's final state (`tool` is "")."""

    tool: str = ""
    path: str = ""
    test: str = "equals"
    value: str = ""
    """Value that the condition compares with, as YAML; for `matches` and `semantic` the text itself."""


@dataclass(slots=True)
class DraftCheck:
    """Check of a case, as the fields of a form."""

    source: str = ""
    """Present name of the check in the case notes; "" for a new check."""
    name: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    """Texts of the form fields, by the path of the condition in the check, such as `tools.require`."""
    values: list[DraftValue] = field(default_factory=list)
    rest: str = ""
    """All conditions that have no field, as YAML."""

    @property
    def groups(self) -> set[str]:
        """Return the top-level keys of the check, such as `tools`, that have a text in a form field."""
        return {path.partition(".")[0] for path in self.fields}


# --- from the case notes ------------------------------------------------------------------------------------


def draft_checks(checks: Mapping[str, Mapping[str, Any]]) -> list[DraftCheck]:
    """Return the form texts of a case's checks; `checks` maps the name of a check to its conditions."""
    return [_draft_check(name, section) for name, section in checks.items()]


def _draft_check(name: str, section: Mapping[str, Any]) -> DraftCheck:
    rest = deepcopy(dict(section))
    texts = {}
    for (group, key), format_text in _list_fields():
        held = rest.get(group)
        if isinstance(held, dict) and key in held and (text := format_text(held[key])) is not None:
            texts[f"{group}.{key}"] = text
            del held[key]
            if not held:
                del rest[group]
    return DraftCheck(name, name, texts, list(_take_values(rest)), format_yaml(rest))


def _list_fields() -> list[tuple[tuple[str, str], Any]]:
    return [
        *((path, _format_lines) for path in LINES),
        *((path, _format_counts) for path in COUNTS),
        *((path, lambda value: value if _is_line(value) else None) for path in SINGLE),
    ]


def _is_line(value: object) -> bool:
    """Return True if the value is a text that a text area can hold unchanged as one of its lines."""
    return isinstance(value, str) and value == value.strip() != "" and len(value.splitlines()) == 1


def _format_lines(value: object) -> str | None:
    lines = value if isinstance(value, list) else []
    return "\n".join(lines) if lines and all(map(_is_line, lines)) else None


def _format_counts(value: object) -> str | None:
    pairs = value.items() if isinstance(value, dict) else ()
    if not pairs or not all(_is_line(name) and type(count) is int for name, count in pairs):
        return None
    return "\n".join(f"{name}: {count}" for name, count in pairs)


def _take_values(rest: dict[str, Any]) -> list[DraftValue]:
    """Remove from `rest` the conditions on single values that fit into form fields, and return them."""
    found: list[DraftValue] = []
    args, state = rest.get("args"), rest.get("state")
    groups = (
        [(tool, rules) for tool, rules in args.items() if _is_line(tool)] if isinstance(args, dict) else []
    )
    if isinstance(state, dict):
        groups.append(("", state))
    for tool, rules in groups:
        for path in list(rules) if isinstance(rules, dict) else ():
            if _is_line(path) and (value := _draft_value(tool, path, rules[path])) is not None:
                found.append(value)
                del rules[path]
        if not rules and tool:
            del rest["args"][tool]
    for key in ("args", "state"):
        if rest.get(key) == {} and found:
            del rest[key]
    return found


def _draft_value(tool: str, path: str, rule: object) -> DraftValue | None:
    """Return the form texts of a condition; None if no field can hold it unchanged."""
    if not isinstance(rule, dict):
        return DraftValue(tool, path, "equals", dump_inline(rule))
    test, value = next(iter(rule.items())) if len(rule) == 1 else ("", None)
    if test not in TESTS or (test == "equals" and not isinstance(value, dict)):
        return None
    if test not in _TEXT_TESTS:
        return DraftValue(tool, path, test, dump_inline(value))
    return DraftValue(tool, path, test, str(value)) if _is_line(value) else None


def format_yaml(value: Mapping[str, Any]) -> str:
    """Return an object as YAML for a text area; "" for an empty object."""
    if not value:
        return ""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)).rstrip("\n")


# --- from a form, and back ----------------------------------------------------------------------------------


def read_checks(form: Form) -> list[DraftCheck]:
    """Return the drafts of the checks in a form.

    Fields are named by the numbers of checks (`k`) and of their conditions on single values (`a`), from 0:
    `k0.a1.path` is the path of the second such condition of the first check.
    """
    texts = FormFields(form)
    paths = [".".join(path) for path in (*LINES, *COUNTS, *SINGLE)]
    return [
        DraftCheck(
            texts.get(f"{name}.source"),
            texts.get(f"{name}.name"),
            {path: text for path in paths if (text := texts.get(f"{name}.{path}"))},
            [
                DraftValue(*[texts.get(f"{row}.{key}") for key in ("tool", "path", "test", "value")])
                for row in texts.list_names(f"{name}.a")
            ],
            texts.get(f"{name}.rest"),
        )
        for name in texts.list_names("k")
    ]


def build_checks(
    drafts: Sequence[DraftCheck], stored_checks: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the checks of a form by name, and a message for each wrong form field, such as `k0.rest`.

    `stored_checks` has the checks in the case notes by name. If the user did not change the conditions of a
    check, the conditions in `stored_checks` are returned.
    """
    errors: dict[str, str] = {}
    checks: dict[str, dict[str, Any]] = {}
    for at, draft in enumerate(drafts):
        prefix, name = f"k{at}", draft.name.strip()
        if name in checks:
            errors[f"{prefix}.name"] = f"there is another check {name!r} above"
        if draft.source in stored_checks and _shows_same(draft, stored_checks[draft.source]):
            checks[name] = dict(stored_checks[draft.source])
        else:
            checks[name] = _build_check(prefix, draft, errors)
    return checks, errors


def _shows_same(draft: DraftCheck, section: Mapping[str, Any]) -> bool:
    shown = _draft_check(draft.source, section)
    shown.rest = normalize_lines(shown.rest)
    typed = (draft.fields, draft.values, draft.rest)
    return typed == (shown.fields, shown.values, shown.rest)


def _build_check(prefix: str, draft: DraftCheck, errors: dict[str, str]) -> dict[str, Any]:
    rest = _parse_yaml(f"{prefix}.rest", draft.rest, errors) if draft.rest.strip() else {}
    if not isinstance(rest, dict):
        errors.setdefault(f"{prefix}.rest", "must be an object, such as `turn: last`")
        rest = {}
    check: dict[str, Any] = {}
    for path, text in draft.fields.items():
        group, _, key = path.partition(".")
        value = _parse_field((group, key), text, f"{prefix}.{path}", errors)
        if value:
            check.setdefault(group, {})[key] = value
    for at, each in enumerate(draft.values):
        row = f"{prefix}.a{at}"
        rules = check.setdefault("args", {}).setdefault(each.tool.strip(), {}) if each.tool.strip() else None
        rules = check.setdefault("state", {}) if rules is None else rules
        if each.path.strip() in rules:
            errors[f"{row}.path"] = "has another condition above: write both below as YAML"
        rules[each.path.strip()] = _build_rule(each, row, errors)
    return _merge(check, rest, f"{prefix}.rest", errors)


def _parse_field(path: tuple[str, str], text: str, name: str, errors: dict[str, str]) -> Any:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if path in SINGLE:
        return text.strip()
    if path in LINES:
        return lines
    counts: dict[str, int] = {}
    for line in lines:
        tool, _, count = line.rpartition(":")
        if not tool.strip() or not re.fullmatch(r"[0-9]{1,6}", count.strip()):
            errors[name] = f"must have a tool and a number on each line, as `search: 3`, not {line!r}"
        else:
            counts[tool.strip()] = int(count)
    return counts


def _build_rule(each: DraftValue, row: str, errors: dict[str, str]) -> Any:
    if not each.path.strip():
        errors[f"{row}.path"] = "must not be empty"
    if each.test not in TESTS:
        errors[f"{row}.value"] = f"there is no condition {each.test!r}"
    if each.test in _TEXT_TESTS:
        return {each.test: each.value}
    value = _parse_yaml(f"{row}.value", each.value, errors)
    return value if each.test == "equals" and not isinstance(value, dict) else {each.test: value}


def _parse_yaml(name: str, text: str, errors: dict[str, str]) -> Any:
    if not text.strip():
        errors[name] = 'must not be empty: "" is the empty text'
        return ""
    try:
        return compose_yaml(text, "")[1]
    except InvalidInputError as error:
        problem = error.problems[0]
        errors[name] = f"line {problem.line}: {problem.message}" if problem.line else problem.message
        return ""


def _merge(one: dict[str, Any], other: dict[str, Any], name: str, errors: dict[str, str]) -> dict[str, Any]:
    """Merge two objects at every depth, and return the result.

    If both have a value for the same key, `one` wins, and `errors` gets a message for the field `name`.
    """
    merged = dict(one)
    for key, value in other.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(merged[key], dict) and isinstance(value, dict):
            merged[key] = _merge(merged[key], value, name, errors)
        else:
            errors[name] = f"has `{key}`, which has a field above"
    return merged


# --- from a call --------------------------------------------------------------------------------------------


def forbid_tool(call: ToolCall, taken: Sequence[DraftCheck]) -> DraftCheck:
    """Return a new check that forbids the tool of `call`, with a name that no check in `taken` has."""
    return _draft_new(f"no_{call.name}", {"tools": {"forbid": [_escape(call.name)]}}, taken)


def require_call(call: ToolCall, taken: Sequence[DraftCheck]) -> DraftCheck:
    """Return a new check that requires a call of the same tool with the arguments of `call`.

    If `call` has no arguments, or if they are no JSON object, every call of the tool meets the check. The
    check gets a name that no check in `taken` has.
    """
    tool, args = _escape(call.name), call.arguments
    if not isinstance(args, Mapping) or not args:
        section: dict[str, Any] = {"tools": {"require": [tool]}}
    else:
        # The short form `key: value` cannot require an object: it would be read as a condition.
        rules = {key: {"equals": value} if isinstance(value, dict) else value for key, value in args.items()}
        section = {"args": {tool: rules}, "calls": "some"}
    return _draft_new(f"calls_{call.name}", section, taken)


def _draft_new(name: str, section: Mapping[str, Any], taken: Sequence[DraftCheck]) -> DraftCheck:
    draft = _draft_check(_choose_name(name, taken), section)
    draft.source = ""
    return draft


def _escape(name: str) -> str:
    """Return a glob pattern that matches only `name`."""
    return _NO_GLOB.sub(r"[\1]", name)


def _choose_name(name: str, taken: Sequence[DraftCheck]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60]
    names, number = {each.name for each in taken}, 1
    while (found := plain if number == 1 else f"{plain}_{number}") in names:
        number += 1
    return found
