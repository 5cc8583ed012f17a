"""Build the trace of one run from the steps of its turns, sorted and limited in number and size.

Agents may send anything: duplicate ids, cycles of parents, times of another clock, and requests of any size.
The steps of a `RunTrace` have unique ids, parents that exist, and times within the turn.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from evalgate.agents.host.trace_values import MOST_SPANS, ValueClipper, clip_name
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import JsonObject, TraceSpan, Usage

_MOST_ERROR = 2_000

PriceUsage = Callable[[Usage], Usage]
"""Function that adds the cost to a usage, if the price of its model is known."""


class RunTrace:
    """Collector of the steps of one run, turn by turn.

    Once the trace has 1,000 steps (`MOST_SPANS`), only the root step of each further turn is kept.
    """

    def __init__(self, price_usage: PriceUsage = lambda usage: usage) -> None:
        self._price_usage = price_usage
        self._clipper = ValueClipper()
        self._spans: list[TraceSpan] = []
        self._turns = 0
        self._left_out = 0

    def add_turn(
        self,
        spans: Sequence[TraceSpan],
        *,
        start_s: float,
        duration_s: float,
        request: object = None,
        response: object = None,
        error: str = "",
    ) -> None:
        """Add the steps of the next turn. The times of `spans` are relative to the beginning of the turn.

        If exactly one step of kind `agent` has no parent, this step is the root of the turn. Otherwise, a new
        step is added as the root.

        Args:
            spans: Steps of the turn, in any order.
            start_s: Beginning of the turn, in seconds since the run began.
            duration_s: Seconds that the turn took; later parts of steps are cut off.
            request: The user's message; ignored if the root has a request.
            response: The agent's answer; ignored if the root has a response.
            error: Reason why there is no answer; "" if there is an answer.
        """
        turn, self._turns = self._turns, self._turns + 1
        ordered = sorted(_clamp_times(spans, duration_s), key=lambda span: span.start_s)
        parents = _find_parents(ordered)
        roots = [index for index, parent in parents.items() if parent is None]
        agents = [index for index in roots if ordered[index].kind == "agent"]
        if len(agents) == 1:
            root = agents[0]
            ordered[root] = _fill_root(ordered[root], request, response, error)
            parents |= {index: root for index in roots if index != root}
        else:
            whole = TraceSpan("", f"turn {turn + 1}", "agent", turn, 0.0, duration_s)
            whole = replace(whole, request=request, response=response, error=error)
            root, ordered = len(ordered), [*ordered, whole]
            parents |= {**dict.fromkeys(roots, root), root: None}
        ids: dict[int, str] = {}
        for index in _iter_from_root(parents):
            if len(self._spans) >= MOST_SPANS and index != root:
                self._left_out += 1
                continue
            ids[index] = f"{turn + 1}.{len(ids) + 1}"
            parent = parents[index]
            self._add_span(ordered[index], turn, start_s, ids[index], "" if parent is None else ids[parent])

    def skip_turn(self) -> None:
        """Count a turn without any known step, so that later turns get the right number."""
        self._turns += 1

    def _add_span(self, span: TraceSpan, turn: int, start_s: float, id_: str, parent_id: str) -> None:
        clip = self._clipper.clip_value
        attributes = clip(dict(span.attributes)) if span.attributes else {}
        usage = None if span.usage is None else self._price_usage(span.usage)
        if usage is not span.usage:
            attributes = {**_as_object(attributes), "evalgate.cost_from": "list price"}
        self._spans.append(
            TraceSpan(
                id=id_,
                name=clip_name(span.name),
                kind=span.kind,
                turn=turn,
                start_s=round(start_s + span.start_s, 6),
                duration_s=round(span.duration_s, 6),
                parent_id=parent_id,
                author=clip_name(span.author),
                usage=usage,
                request=clip(span.request),
                response=clip(span.response),
                error=shorten_text(span.error, _MOST_ERROR),
                attributes=_as_object(attributes),
            )
        )

    def build_spans(self) -> tuple[TraceSpan, ...]:
        """Return the steps, turn by turn: each parent before its children, and siblings by their beginning.

        If steps were left out, the first step has their number as the attribute `evalgate.steps_left_out`.
        """
        if self._left_out and self._spans:
            first = self._spans[0]
            noted = {**first.attributes, "evalgate.steps_left_out": self._left_out}
            return (replace(first, attributes=noted), *self._spans[1:])
        return tuple(self._spans)


def _fill_root(root: TraceSpan, request: object, response: object, error: str) -> TraceSpan:
    """Return a copy of a turn's root step, in which the arguments fill the step's empty fields."""
    return replace(
        root,
        request=request if root.request is None else root.request,
        response=response if root.response is None else root.response,
        error=root.error or error,
    )


def _as_object(found: object) -> JsonObject:
    return found if isinstance(found, dict) else {"…": found}


def _clamp_times(spans: Sequence[TraceSpan], duration_s: float) -> Iterator[TraceSpan]:
    """Yield copies of the steps, with times that are cut to lie between 0 and the turn's duration."""
    for span in spans:
        start = span.start_s if math.isfinite(span.start_s) else 0.0
        start = min(max(start, 0.0), duration_s)
        took = span.duration_s if math.isfinite(span.duration_s) else 0.0
        yield replace(span, start_s=start, duration_s=min(max(took, 0.0), duration_s - start))


def _find_parents(spans: Sequence[TraceSpan]) -> dict[int, int | None]:
    """Return the index of each step's parent, by the index of the step.

    The parent is None for a root, for a step with an unknown parent, and for one step of each cycle.
    """
    known: dict[str, int] = {}
    for index, span in enumerate(spans):
        if span.id:
            known.setdefault(span.id, index)
    parents: dict[int, int | None] = {
        index: known.get(span.parent_id) if span.parent_id else None for index, span in enumerate(spans)
    }
    checked: set[int] = set()
    for index in parents:
        path: dict[int, None] = {}
        at: int | None = index
        while at is not None and at not in checked:
            if at in path:
                parents[at] = None
                break
            path[at] = None
            at = parents[at]
        checked.update(path)
    return parents


def _iter_from_root(parents: dict[int, int | None]) -> Iterator[int]:
    """Yield the index of each step: depth first, each parent before its children.

    Siblings keep their order in `parents`.
    """
    children: dict[int | None, list[int]] = {}
    for index, parent in parents.items():
        children.setdefault(parent, []).append(index)
    waiting = children.get(None, [])[::-1]
    while waiting:
        index = waiting.pop()
        yield index
        waiting += children.get(index, [])[::-1]
