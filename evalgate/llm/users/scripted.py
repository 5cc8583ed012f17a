"""Play the user of a case by sending its written messages, one after the other."""

from collections.abc import Sequence

from evalgate.core.protocols import SimulatedUserError
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


class ScriptedUser:
    """An `evalgate.core.protocols.User` that sends given messages, no matter what the agent replies."""

    usage = None

    def __init__(self, messages: Sequence[UserMessage]) -> None:
        self._messages = messages

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """Return the message with the 0-based number `len(replies)`; None after the last message."""
        return self._messages[len(replies)] if len(replies) < len(self._messages) else None


def create_scripted_user(case: EvalCase, run: int) -> ScriptedUser:
    """Create the user of a case with written turns; `run` is ignored.

    Raises:
        SimulatedUserError: the case has no written turns.
    """
    del run
    if case.turns:
        return ScriptedUser([turn.user for turn in case.turns])
    if case.scenario is not None:
        sentence = (
            "the case is a scenario; it needs a simulated user, which is not configured: name its model "
            "with --simulated-user PROVIDER/MODEL, in the `user` section of the thresholds file, or in "
            "Google ADK's `user_simulator_config`"
        )
        raise SimulatedUserError(Failure("unsupported", sentence))
    raise SimulatedUserError(Failure("unsupported", "the case has no turns"))
