"""What the nodes of a recorded agent did in a turn, as tRPC-Agent-Go traces it (`executionTrace`)."""

from collections.abc import Iterator, Mapping, Sequence

from evalgate.trpcjudging.gojson import compact, struct
from evalgate.trpcjudging.gotext import folded

_LISTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "traceStepTools": ("tools", ("id", "name", "arguments", "result", "error")),
    "traceStepSkills": ("skills", ("name",)),
}
"""Where a step keeps them, and what is shown of each."""
_TEXTS: Mapping[str, str] = {"traceStepInput": "input", "traceStepOutput": "output"}
STEP_FIELDS = frozenset({*_LISTS, *_TEXTS})
_OF_ANY_TYPE = frozenset({"arguments", "result"})


class NotTraced(Exception):
    """A turn's trace lacks what is asked of it; says what."""


def of_step(trace: object, node: str, field: str) -> str:
    """What the last step of `node` took in, gave out, called or loaded: a text, or a list as JSON.

    `field` is one of STEP_FIELDS.

    Raises:
        NotTraced: there is no such step, or nothing in it.
    """
    if trace is None:
        raise NotTraced("the turn has no `executionTrace`")
    step = _last_step(trace, node)
    if field in _LISTS:
        key, members = _LISTS[field]
        return compact([struct(_given(_members(each), members)) for each in _listed(step, key)])
    part = _TEXTS[field]
    text = _members(step.get(part)).get("text")
    if not text or not isinstance(text, str):
        raise NotTraced(f"the last step of the node {node!r} has no {part}")
    return text


def _last_step(trace: object, node: str) -> Mapping[str, object]:
    for step in reversed([_members(each) for each in _listed(_members(trace), "steps")]):
        if step.get("nodeid") == node:
            return step
    raise NotTraced(f"the turn's `executionTrace` has no step of the node {node!r}")


def _given(members: Mapping[str, object], keys: Sequence[str]) -> Iterator[tuple[str, object]]:
    for key in keys:
        value = members.get(key)
        if value is not None and (value != "" or key in _OF_ANY_TYPE):
            yield key, value


def _members(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        return {}
    return {folded(str(key)): each for key, each in value.items()}


def _listed(value: Mapping[str, object], key: str) -> Sequence[object]:
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()
