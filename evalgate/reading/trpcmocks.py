"""`toolMock` of tRPC-Agent-Go: fixed results that stand in for tools in one turn.

Rules of `actual` are for the agent that is gated; those of `expected`, for a runner that makes expectations,
are no concern of a gate. What cannot be applied is told, so that its case is not played.
"""

from collections.abc import Iterator, Mapping

from evalgate.model import ToolMock

_TREES = ("onlyTree", "ignoreTree", "numberTolerance")


def tool_mocks(given: object, turn: int) -> Iterator[ToolMock]:
    """The mocks of a turn, counted from 0; the first that matches a call answers it."""
    rules = given.get("actual") if isinstance(given, Mapping) else None
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, Mapping) and isinstance(rule.get("name"), str) and rule["name"]:
            yield _mock(rule["name"], rule, turn)
        else:
            yield ToolMock("", None, turn=turn, unsupported="a rule of `toolMock` names no tool")


def _mock(name: str, rule: Mapping[str, object], turn: int) -> ToolMock:
    arguments = rule.get("arguments")
    asked = arguments if isinstance(arguments, Mapping) else {}
    wanted = None if arguments is None or asked.get("ignore") is True else asked.get("expected")
    is_object = isinstance(wanted, Mapping)
    return ToolMock(
        name,
        rule.get("result"),
        wanted if isinstance(wanted, Mapping) else None,
        exact=is_object,
        turn=turn,
        unsupported=_why_not(name, rule, asked, free=arguments is None or asked.get("ignore") is True),
    )


def _why_not(name: str, rule: Mapping[str, object], asked: Mapping[str, object], *, free: bool) -> str:
    what = f"the rule of `toolMock` for `{name}`"
    if rule.get("llmGenerator") is not None:
        return f"{what} has a model make the result up, which evalgate does not: write a `result`"
    if rule.get("result") is None:
        return f"{what} has no `result`"
    trees = [key for key in _TREES if asked.get(key)]
    if trees:
        return f"{what} compares arguments by `{trees[0]}`, which evalgate does not for mocks"
    if not free and not isinstance(asked.get("expected"), Mapping):
        return f"{what} expects arguments that are no object"
    return ""
