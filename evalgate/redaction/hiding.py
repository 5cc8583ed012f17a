"""A redactor that goes on learning what to hide while agents talk."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from evalgate.errors import InvalidInput, NoVerdict, Problem
from evalgate.redaction import Redactor

_T = TypeVar("_T")


class Hiding:
    """What stands between a run and everybody who is told of it."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def text(self, text: str, *sources: object) -> str:
        """A text that is to be shown, without secrets.

        `sources` are what it was made from: they may announce a secret that it quotes.
        """
        for source in sources:
            self.redactor = self.redactor.learning_from(source)
        return self.redactor.text(text)

    def tree(self, value: _T) -> _T:
        """The same for data that is to be kept."""
        heard: list[str] = []
        hidden = self.redactor.tree(value, heard.append)
        if not heard:
            return hidden
        self.redactor = self.redactor.learning(*heard)
        return self.redactor.tree(hidden)

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
