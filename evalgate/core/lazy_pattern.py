"""Regular expressions that are compiled when they are first used."""

import re
from typing import Any, AnyStr, Generic, cast


def compile_lazily(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an object with the methods of a compiled pattern, which compiles the pattern at the first use.

    A wrong pattern therefore raises `re.error` only at the first use. Call the methods of the object.
    Functions of `re`, such as `re.sub`, do not accept it as an argument.
    """
    # Compiling takes 50 to 1,000 µs; a run uses a third of the patterns of the modules that it loads.
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    """Stand-in for a pattern that compiles the pattern at the first use of a method."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._source: tuple[AnyStr, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)  # so that Python does not call `__getattr__` for this name again
        return found
