"""Conditions on the session's final state."""

from collections.abc import Iterator, Mapping

from evalgate.config.schema.checks import ValueRule
from evalgate.metrics.checks.transcript import Transcript
from evalgate.metrics.checks.values import ValueCondition, find_values

NO_STATE = "the agent reported no session state"


class StateCondition:
    """The conditions of `state`."""

    def __init__(self, rules: Mapping[str, ValueRule]) -> None:
        self._conditions = [(path, ValueCondition(rule)) for path, rule in rules.items()]

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each key with a wrong value."""
        state = transcript.run.final_state
        if state is None:
            yield NO_STATE
            return
        for path, condition in self._conditions:
            for shown, value in find_values(state, path):
                if fault := condition.find_fault(value, transcript):
                    yield f"state `{shown}` {fault}"
