"""Conditions on the arguments of tool calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from evalgate.config.schema.checks import ValueRule
from evalgate.metrics.checks.tools import build_matcher, describe_calls
from evalgate.metrics.checks.transcript import MadeCall, Transcript
from evalgate.metrics.checks.values import ValueCondition, find_values


class ArgumentsCondition:
    """The conditions of `args` for one tool."""

    def __init__(
        self, tool: str, rules: Mapping[str, ValueRule], calls: Literal["every", "some", "if_any"]
    ) -> None:
        self._tool = tool
        self._matches = build_matcher(tool)
        self._conditions = [(path, ValueCondition(rule)) for path, rule in rules.items()]
        self._calls = calls

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each argument that is wrong."""
        matches = self._matches
        calls = [made for made in transcript.calls if matches(made.call.name)]
        if not calls:
            if self._calls != "if_any":
                yield f"expected a call of `{self._tool}`, found {describe_calls(transcript.calls)}"
        elif self._calls == "some":
            yield from self._find_nearest_faults(calls, transcript)
        else:
            for made in calls:
                yield from self._find_call_faults(made, transcript)

    def _find_nearest_faults(self, calls: Sequence[MadeCall], transcript: Transcript) -> list[str]:
        """Return the faults of the call with the fewest; none if one call is right."""
        best: list[str] | None = None
        for made in calls:
            faults = self._find_call_faults(made, transcript)
            if not faults:
                return []
            best = faults if best is None or len(faults) < len(best) else best
        return best or []

    def _find_call_faults(self, made: MadeCall, transcript: Transcript) -> list[str]:
        call, faults = made.call, []
        args = {} if call.arguments is None else call.arguments
        for path, condition in self._conditions:
            # Most paths are the name of an argument.
            if isinstance(args, dict) and path in args:
                found: Iterable[tuple[str, object]] = ((path, args[path]),)
            else:
                found = find_values(args, path)
            for shown, value in found:
                if fault := condition.find_fault(value, transcript):
                    faults.append(f"{made.describe()}: `{shown}` {fault}")
        return faults
