"""Goals of a case, built from promptfoo's assertions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from evalgate.core.types import Goal, Journey, JsonObject

_ANY_ARGS: JsonObject = {"IGNORE": None}
_ONE_VALUE = frozenset({"equals", "contains", "icontains", "llm-rubric", "model-graded-closedqa"})
_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")


class NotCarriedError(Exception):
    """A part of a configuration has no counterpart; the text says which."""


def render_template(text: str, variables: Mapping[str, object]) -> str:
    """Fill in `{{ name }}`; the rest of Nunjucks has no counterpart.

    Raises:
        NotCarriedError: the template has more, or a variable has no value.
    """

    def fill(match: re.Match[str]) -> str:
        value: object = variables
        for part in match[1].split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise NotCarriedError(f"no value for `{match[0]}`")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    filled = _VARIABLE.sub(fill, text)
    if "{%" in text or "{{" in _VARIABLE.sub("", text):
        raise NotCarriedError("a template with more than `{{ name }}`")
    return filled


@dataclass
class GoalBuilder:
    """Collects the goals of one case."""

    variables: Mapping[str, object]
    has_transform: bool = False
    """True: texts are not compared as the agent says them."""
    texts: list[Goal] = field(default_factory=list)
    sequence: list[str] = field(default_factory=list)
    args: list[tuple[str, JsonObject]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)

    def add_assertion(self, assertion: object) -> None:
        """Add the goals of one assertion.

        Raises:
            NotCarriedError: it has no counterpart.
        """
        kind = assertion.get("type") if isinstance(assertion, Mapping) else None
        if not isinstance(assertion, Mapping) or not isinstance(kind, str):
            raise NotCarriedError("an assertion without a type")
        is_text = not kind.startswith(("trajectory:", "assert-set"))
        if (
            assertion.get("transform")
            or assertion.get("contextTransform")
            or (is_text and self.has_transform)
        ):
            raise NotCarriedError(f"assert `{kind}` with a transform")
        if kind == "assert-set" and "threshold" not in assertion:
            for each in assertion.get("assert") or []:
                self.add_assertion(each)
        elif kind in _ONE_VALUE or kind in {"contains-all", "icontains-all"}:
            self._add_text(kind, assertion.get("value"))
        elif kind.startswith("trajectory:tool-"):
            self._add_calls(kind, assertion.get("value"))
        else:
            raise NotCarriedError(f"assert `{kind}`")

    def _add_text(self, kind: str, value: object) -> None:
        if isinstance(value, str) and kind.endswith("-all"):
            value = [each.strip() for each in value.split(",")]
        values = value if isinstance(value, list) and kind.endswith("-all") else [value]
        if not values or not all(isinstance(each, str | int | float) and each != "" for each in values):
            raise NotCarriedError(f"assert `{kind}` with a value that is no text")
        rendered = [render_template(str(each), self.variables) for each in values]
        if any(each.startswith("file://") for each in rendered):
            raise NotCarriedError(f"assert `{kind}` with a value in a file")
        name = f"{kind}-{len(self.texts) + 1}"
        if kind == "equals":
            self.texts.append(Goal(name, "text", response=rendered[0]))
        elif kind in _ONE_VALUE and not kind.endswith("contains"):
            self.texts.append(Goal("", "check", check=rendered[0], scope="response"))
        else:
            self.texts.append(Goal(name, "text", keywords=tuple(rendered)))

    def _add_calls(self, kind: str, value: object) -> None:
        if kind == "trajectory:tool-used":
            self.used += _list_tools(kind, [value] if isinstance(value, Mapping) else value)
        elif kind == "trajectory:tool-sequence":
            steps = value.get("steps") if isinstance(value, Mapping) else value
            if self.sequence or (isinstance(value, Mapping) and value.get("mode", "in_order") != "in_order"):
                raise NotCarriedError(f"assert `{kind}`: a second one, or the mode `exact`")
            self.sequence = _list_tools(kind, steps)
        elif kind == "trajectory:tool-args-match" and isinstance(value, Mapping):
            args = value.get("args", value.get("arguments"))
            if not isinstance(args, Mapping) or {*value} - {"name", "args", "arguments", "mode"}:
                raise NotCarriedError(f"assert `{kind}` with more than `name` and `args`")
            (tool,) = _list_tools(kind, [value.get("name")])
            if value.get("mode", "partial") != "partial" or self.sequence.count(tool) > 1:
                raise NotCarriedError(f"assert `{kind}` of `{tool}`: only some arguments of one call")
            self.args.append((tool, args))
        else:
            raise NotCarriedError(f"assert `{kind}`")

    def build_journey(self, story: str) -> Journey:
        """Return the goals, one for each expected call: several assertions may mean the same call."""
        args = list(self.args)
        goals = []
        for at, tool in enumerate(self.sequence, 1):
            known = next((each for each in args if each[0] == tool), None)
            if known:
                args.remove(known)
            goals.append(Goal(f"step-{at}-{tool}", "tool_call", tool, known[1] if known else _ANY_ARGS))
        names = [goal.name for goal in goals]
        goals += [
            Goal(f"call-{at}-{tool}", "tool_call", tool, given) for at, (tool, given) in enumerate(args, 1)
        ]
        expected = {goal.tool_name for goal in goals}
        unnamed = [tool for tool in dict.fromkeys(self.used) if tool not in expected]
        goals += [Goal(f"used-{tool}", "tool_call", tool, _ANY_ARGS) for tool in unnamed]
        every = (*goals, *self.texts)
        order: dict[str, tuple[str, ...]] = {goal.name: () for goal in every if goal.name}
        order |= {name: (later,) for name, later in pairwise(names)}
        return Journey(every, order, story)


def _list_tools(kind: str, value: object) -> list[str]:
    """Return the names of tools.

    Raises:
        NotCarriedError: one is no plain name, or has further conditions.
    """
    found = []
    for each in value if isinstance(value, list) else [value]:
        is_plain = isinstance(each, Mapping) and {*each} <= {"name", "min"} and each.get("min", 1) == 1
        name = each.get("name") if isinstance(each, Mapping) and is_plain else each
        if not isinstance(name, str) or not name or "*" in name or "{{" in name:
            raise NotCarriedError(f"assert `{kind}` with more than names of tools")
        found.append(name)
    return found
