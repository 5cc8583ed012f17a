"""The user of a case whose turns are written down: says them, one after the other."""

from collections.abc import Sequence

from evalgate.core.protocols import UserFailed
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage


class WrittenUser:
    """Says what is written, whatever the agent replies. See `evalgate.core.protocols.User`."""

    usage = None

    def __init__(self, messages: Sequence[UserMessage]) -> None:
        self._messages = messages

    async def next(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What follows so many replies."""
        return self._messages[len(replies)] if len(replies) < len(self._messages) else None


def written_user(case: EvalCase, run: int) -> WrittenUser:
    """Who plays a case that is written down.

    Raises:
        UserFailed: it is not.
    """
    del run
    if case.turns:
        return WrittenUser([turn.user for turn in case.turns])
    if case.scenario is not None:
        sentence = (
            "the case is a scenario; it needs a simulated user, which is not configured: name its model in "
            "the `user` section of the thresholds file, or with --simulated-user PROVIDER/MODEL"
        )
        raise UserFailed(Failure("unsupported", sentence))
    raise UserFailed(Failure("unsupported", "the case has no turns"))
