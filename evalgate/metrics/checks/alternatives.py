"""Conditions that must all hold, alternatives of which one must hold, and groups of which none may hold."""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from evalgate.metrics.checks.transcript import DoesNotApplyError, NotKnownError, Transcript
from evalgate.metrics.checks.values import NO_STATE


class Condition(Protocol):
    """A part of a check."""

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each reason why the condition does not hold.

        Raises:
            DoesNotApplyError: the condition does not apply to the transcript.
            QuestionPendingError: a model has to be asked first.
        """
        ...


def collect_faults(
    condition: Condition, transcript: Transcript
) -> tuple[list[str], DoesNotApplyError | None]:
    """Return the faults of a condition, and the error if all or a part of it does not apply, else None."""
    faults: list[str] = []
    try:
        for fault in condition.find_faults(transcript):
            faults.append(fault)  # noqa: PERF402  a comprehension would lose those before an error
    except DoesNotApplyError as error:
        return faults, error
    return faults, None


class ConditionGroup:
    """Conditions that must all hold, of one turn or of the whole conversation."""

    def __init__(self, conditions: Sequence[Condition], turn: int | Literal["last"] | None) -> None:
        self._conditions = conditions
        self._turn = turn

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield the faults of all conditions.

        Raises:
            DoesNotApplyError: the turn does not exist, or a condition does not apply. In the second case it
                is raised after the faults of the other conditions.
        """
        chosen = transcript.select_turn(self._turn)
        lacking = None
        for condition in self._conditions:
            try:
                yield from condition.find_faults(chosen)
            except DoesNotApplyError as error:
                lacking = error
        if lacking is not None:
            raise lacking


class AlternativesCondition:
    """Groups of which one must hold; if none does, the fault is that of the group with the fewest faults."""

    def __init__(self, groups: Sequence[Condition]) -> None:
        self._groups = groups

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield one sentence, with the first fault of the alternative with the fewest faults.

        Yield nothing if an alternative holds.

        Raises:
            DoesNotApplyError: no alternative applies.
            NotKnownError: no alternative holds, and an alternative without a known fault cannot be judged.
            QuestionPendingError: a model has to be asked first.
        """
        nearest: tuple[int, int, str] | None = None
        lacking = list[DoesNotApplyError]()
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
        unknown = [each for each in lacking if isinstance(each, NotKnownError)]
        if unknown or len(lacking) == len(self._groups):
            raise (unknown or lacking)[0]
        if nearest is not None:
            count, number, fault = nearest
            more = f" (and {count - 1} more)" if count > 1 else ""
            yield f"none of {len(self._groups)} alternatives holds; nearest is number {number}: {fault}{more}"


class NoneOfCondition:
    """Groups of which none may hold."""

    def __init__(self, groups: Sequence[Condition]) -> None:
        self._groups = groups

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each group that holds, or that fails only because the state is unknown.

        Raises:
            DoesNotApplyError: a group does not apply. It is raised after the other groups' sentences.
            QuestionPendingError: a model has to be asked first.
        """
        lacking = None
        for number, group in enumerate(self._groups, 1):
            found = f"number {number} of `none_of` holds"
            try:
                for fault in group.find_faults(transcript):
                    found = fault if fault == NO_STATE else ""
                    if not found:
                        break
            except DoesNotApplyError as error:
                lacking, found = error, ""
            if found:
                yield found
        if lacking is not None:
            raise lacking
