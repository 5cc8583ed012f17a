"""Combine the conditions of a check into groups: all must hold, at least one must hold, or none may hold."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from evalgate.metrics.checks.transcript import NoEvidenceError, Transcript, UndecidedError
from evalgate.metrics.checks.values import NO_STATE


class Condition(Protocol):
    """A condition of a check, or a group of conditions."""

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each reason why the condition does not hold.

        Raises:
            UndecidedError: the condition neither holds nor fails.
            QuestionPendingError: a model has to be asked first.
        """
        ...


def collect_faults(condition: Condition, transcript: Transcript) -> tuple[list[str], UndecidedError | None]:
    """Return the faults of a condition, and the UndecidedError that it raised; None if it raised none.

    The faults that the condition found before the error are kept.

    Raises:
        QuestionPendingError: a model has to be asked first.
    """
    faults: list[str] = []
    try:
        for fault in condition.find_faults(transcript):
            faults.append(fault)  # noqa: PERF402  a comprehension would lose those before an error
    except UndecidedError as error:
        return faults, error
    return faults, None


class ConditionGroup:
    """Conditions on one turn, or on the whole conversation, that must all hold."""

    def __init__(self, conditions: Sequence[Condition], turn: int | Literal["last"] | None) -> None:
        self._conditions = conditions
        self._turn = turn

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield the faults of all conditions.

        If a condition raises UndecidedError, the faults of all other conditions are yielded before the error
        is raised.

        Raises:
            UndecidedError: the turn does not exist, or a condition raised this error.
            QuestionPendingError: a model has to be asked first.
        """
        chosen = transcript.select_turn(self._turn)
        lacking = None
        for condition in self._conditions:
            try:
                yield from condition.find_faults(chosen)
            except UndecidedError as error:
                lacking = error
        if lacking is not None:
            raise lacking


class AlternativesCondition:
    """Alternative groups of conditions: at least one group must hold."""

    def __init__(self, groups: Sequence[Condition]) -> None:
        self._groups = groups

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield one sentence if no alternative holds: about the alternative with the fewest faults.

        An alternative is undecided if it has no fault, but one of its conditions raises UndecidedError.

        Raises:
            UndecidedError: no alternative holds, and all are undecided. Also raised if no alternative holds,
                and one raised NoEvidenceError without a fault: with evidence it might hold.
            QuestionPendingError: a model has to be asked first.
        """
        nearest: tuple[int, int, str] | None = None
        lacking = list[UndecidedError]()
        for number, group in enumerate(self._groups, 1):
            faults, error = collect_faults(group, transcript)
            if error is not None:
                if not faults:
                    lacking.append(error)
                faults.append(str(error))
            if not faults:
                return
            if nearest is None or len(faults) < nearest[0]:
                nearest = len(faults), number, faults[0]
        unknown = [each for each in lacking if isinstance(each, NoEvidenceError)]
        if unknown or len(lacking) == len(self._groups):
            raise (unknown or lacking)[0]
        if nearest is not None:
            count, number, fault = nearest
            more = f" (and {count - 1} more)" if count > 1 else ""
            yield f"none of {len(self._groups)} alternatives holds; nearest is number {number}: {fault}{more}"


class NoneOfCondition:
    """Forbidden groups of conditions: none of the groups may hold."""

    def __init__(self, groups: Sequence[Condition]) -> None:
        self._groups = groups

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each group that holds, since none may.

        A group with a fault does not hold, and yields nothing. One fault is an exception: `NO_STATE`, the
        sentence that the agent reported no session state. If it is the group's only fault, the group might
        hold, and `NO_STATE` is yielded.

        Raises:
            UndecidedError: a group raised this error. The sentences about other groups are yielded first.
            QuestionPendingError: a model has to be asked first.
        """
        # Otherwise a turn without a response would hide a wrong response of another turn.
        transcript = replace(transcript, skips_silent_turns=True)
        lacking = None
        for number, group in enumerate(self._groups, 1):
            found = f"number {number} of `none_of` holds"
            try:
                for fault in group.find_faults(transcript):
                    found = fault if fault == NO_STATE else ""
                    if not found:
                        break
            except UndecidedError as error:
                lacking, found = error, ""
            if found:
                yield found
        if lacking is not None:
            raise lacking
