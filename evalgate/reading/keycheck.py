"""Collect what a file says under keys that nothing reads: errors or a notice."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pydantic import BaseModel

from evalgate.errors import Problem
from evalgate.numbers import counted
from evalgate.reading.unreadkeys import Location, Spelled, UnreadKey, unread_keys
from evalgate.reading.validation import did_you_mean, unknown_key

_TOLD = 10
"""Places of one key that are reported; a generated file repeats a mistake in each of its cases."""


@dataclass(slots=True)
class _Found:
    first: UnreadKey
    times: int = 0


@dataclass(slots=True)
class KeyCheck:
    """The keys of one file that nothing reads."""

    file: str
    """Path as the user wrote it."""
    position: Callable[[Location], tuple[int, int]]
    """Line and column of what stands at a location of the document."""
    problems: list[Problem]
    """Takes what the owner of the format refuses."""
    spelled: Spelled = str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Keys of other formats, and what says the same in this one; "" for what none of its keys says."""
    is_open: bool = True
    """False once the whole file has been looked through: cases of a large file are made again and again."""
    _refused: dict[str, _Found] = field(default_factory=dict)
    _ignored: dict[str, _Found] = field(default_factory=dict)

    def look(self, model: type[BaseModel], value: object, location: Location = ()) -> None:
        """Look through a value, of any shape, that `model` reads and that stands at `location`."""
        self.add(unread_keys(model, value, location, spelled=self.spelled))

    def add(self, keys: Iterable[UnreadKey]) -> None:
        """Note keys that were found unread."""
        for key in keys:
            name = str(key.location[-1])
            noted = self._refused if key.is_refused else self._ignored
            found = noted.setdefault(name, _Found(key))
            found.times += 1
            if key.is_refused and found.times <= _TOLD:
                self.problems.append(Problem(self.file, *self.position(key.location), self._sentence(key)))

    def notices(self) -> tuple[str, ...]:
        """Return the sentence for the keys that were ignored, and add to the problems how many are untold.

        This ends the check.
        """
        self.is_open = False
        for name, found in self._refused.items():
            if found.times > _TOLD:
                message = f"`{name}` is unknown in {counted(found.times - _TOLD, 'more place')}"
                self.problems.append(Problem(self.file, *self.position(found.first.location), message))
        if not self._ignored:
            return ()
        times = sum(found.times for found in self._ignored.values())
        keys = "1 key" if times == 1 else f"{times:,} keys"
        verb = "is" if times == 1 else "are"
        names = [self._ignored_key(name, found) for name, found in islice(self._ignored.items(), _TOLD)]
        more = [f"and {len(self._ignored) - _TOLD} more"] if len(self._ignored) > _TOLD else []
        return (f"{keys} of {self.file} {verb} read by nothing: {'; '.join([*names, *more])}.",)

    def _sentence(self, key: UnreadKey) -> str:
        own = self.elsewhere.get(str(key.location[-1]))
        return unknown_key(key.location, key.known, f" Write `{own}`." if own else "")

    def _ignored_key(self, name: str, found: _Found) -> str:
        line, _ = self.position(found.first.location)
        where = f"line {line}" if found.times == 1 else f"{found.times:,} times, first in line {line}"
        own = self.elsewhere.get(name)
        hint = f" Write `{own}`" if own else did_you_mean(name, found.first.known) if own is None else ""
        return f"`{name}` ({where}{hint and f';{hint[:2].lower()}{hint[2:]}'})"
