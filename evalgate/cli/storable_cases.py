"""Replace values that an eval set cannot store, such as NaN, in cases made from recorded conversations."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalgate.core.sanitize import replace_lone_surrogates
from evalgate.core.types import EvalCase, Event, ToolCall, ToolResult
from evalgate.redaction.redactor import rewrite_tree


def make_storable(case: EvalCase) -> EvalCase:
    """Return a copy of a case without lone surrogates, NaN and infinite numbers, for an eval set.

    A lone surrogate becomes U+FFFD. In tool calls and their results, a number that is not finite becomes its
    name, such as "NaN". Recordings have these values because tracing libraries cut texts inside a character,
    and because Python writes NaN into JSON.
    """
    whole: EvalCase = rewrite_tree(case, lambda _, text: replace_lone_surrogates(text))
    turns = []
    for turn in whole.turns:
        events: list[Event] = []
        for event in turn.expected.events:
            if isinstance(event, ToolCall):
                args, other_args = _name_non_finite(event.args), _name_non_finite(event.other_args)
                events.append(replace(event, args=args, other_args=other_args))
            elif isinstance(event, ToolResult):
                events.append(replace(event, result=_name_non_finite(event.result)))
            else:
                events.append(event)
        turns.append(replace(turn, expected=replace(turn.expected, events=tuple(events))))
    return replace(whole, turns=tuple(turns))


def _name_non_finite(value: Any) -> Any:
    """Return a JSON value with a name, such as "NaN", in place of each NaN and infinite number."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {key: _name_non_finite(each) for key, each in value.items()}
    return [_name_non_finite(each) for each in value] if isinstance(value, list | tuple) else value
