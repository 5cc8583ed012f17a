"""A redactor that goes on learning what to hide while agents talk."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from evalgate.errors import InvalidInput, NoVerdict, Problem
from evalgate.redaction import Redactor
from evalgate.redaction.cleanparts import CleanParts
from evalgate.redaction.firstlook import FirstLook
from evalgate.redaction.redacted import may_hold

_T = TypeVar("_T")


class Hiding:
    """What stands between a run and everybody who is told of it."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._first = FirstLook(redactor)
        self._clean = CleanParts()

    def text(self, text: str, *sources: object) -> str:
        """A text that is to be shown, without secrets.

        `sources` are what it was made from: they may announce a secret that it quotes.
        """
        for source in sources:
            self._learnt(self.redactor.learning_from(source))
        return self.redactor.text(text)

    def tree(self, value: _T) -> _T:
        """The same for data that is to be kept."""
        heard: list[str] = []
        hidden = self.redactor.tree(value, heard.append, self._clean)
        if not heard:
            return hidden
        self._learnt(self.redactor.learning(*heard))
        return self.redactor.tree(hidden)

    def parts(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """As `tree`, for dataclasses that will be parts of a larger tree: they are not looked at again there.

        Each comes with all that it holds as compact JSON.
        """
        if not self._first.is_clean([as_json for _, as_json in values]):
            if len(values) == 1:
                return [self.tree(values[0][0])]
            return [hidden for each in values for hidden in self.parts([each])]
        self._clean.add(value for value, _ in values)
        return [value for value, _ in values]

    def again(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """As `parts`, for what this version of evalgate redacted when it wrote that JSON, maybe elsewhere."""
        found: list[_T] = []
        for value, as_json in values:
            if may_hold(as_json, self.redactor.needles):
                found.append(self.tree(value))
            else:
                self._clean.add((value,))
                found.append(value)
        return found

    def _learnt(self, redactor: Redactor) -> None:
        """From now on, hide what `redactor` knows: what seemed to hold nothing may hold something."""
        if redactor is not self.redactor:
            self.redactor = redactor
            self._first = FirstLook(redactor)
            self._clean = CleanParts()

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """A block whose errors for users are told without secrets."""
        try:
            yield
        except InvalidInput as error:
            raise InvalidInput(self._problems(error.problems)) from None
        except NoVerdict as error:
            raise NoVerdict(self.text(str(error))) from None

    def _problems(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        return self.redactor.tree(tuple(problems))
