"""The user of a case whose turns are written down: says them, one after the other."""

from collections.abc import Sequence

from evalgate.core.protocols import SimulatedUserError
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


class ScriptedUser:
    """Says what is written, whatever the agent replies. See `evalgate.core.protocols.User`."""

    usage = None

    def __init__(self, messages: Sequence[UserMessage]) -> None:
        self._messages = messages

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What follows so many replies."""
        return self._messages[len(replies)] if len(replies) < len(self._messages) else None


def create_scripted_user(case: EvalCase, run: int) -> ScriptedUser:
    """Who plays a case that is written down.

    Raises:
        SimulatedUserError: it is not.
    """
    del run
    if case.turns:
        return ScriptedUser([turn.user for turn in case.turns])
    if case.scenario is not None:
        sentence = (
            "the case is a scenario; it needs a simulated user, which is not configured: name its model in "
            "the `user` section of the thresholds file, or with --simulated-user PROVIDER/MODEL"
        )
        raise SimulatedUserError(Failure("unsupported", sentence))
    raise SimulatedUserError(Failure("unsupported", "the case has no turns"))
