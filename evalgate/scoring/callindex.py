"""Which tool calls can be the same at all, found without comparing each with each."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from evalgate.scoring.jsoncompare import as_double, is_number
from evalgate.scoring.toolrecords import ToolRecord

_Key: TypeAlias = tuple[str, Hashable]
_ROUNDING = 1e-9


class CallIndex:
    """Calls by name and by the shape of their arguments, each shape in the order of its first number.

    Whoever is not among the candidates of a call differs from it in name or arguments, numbers being equal
    within the tolerance.
    """

    def __init__(self, calls: Sequence[ToolRecord], tolerance: float) -> None:
        self._tolerance = tolerance
        groups: dict[_Key, list[tuple[float, int]]] = {}
        for at, call in enumerate(calls):
            groups.setdefault(_key(call), []).append((_first_number(call.arguments), at))
        self.order: list[int] = []
        """Place in the index → place in `calls`."""
        self._blocks: dict[_Key, tuple[int, list[float]]] = {}
        for key, members in groups.items():
            members.sort()
            self._blocks[key] = (len(self.order), [number for number, _ in members])
            self.order += [at for _, at in members]

    def candidates(self, call: ToolRecord) -> range:
        """Places in the index that a call may be equal to."""
        start, numbers = self._blocks.get(_key(call), (0, []))
        if next(_numbers(call.arguments), None) is None:
            return range(start, start + len(numbers))
        number = _first_number(call.arguments)
        reach = self._tolerance + abs(number) * _ROUNDING
        first, last = bisect_left(numbers, number - reach), bisect_right(numbers, number + reach)
        return range(start + first, start + max(first, last))


def _key(call: ToolRecord) -> _Key:
    return call.name, _shape(call.arguments)


def _shape(value: object) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset([(key, _shape(each)) for key, each in value.items()])
    if isinstance(value, list):
        return tuple([_shape(each) for each in value])
    return int if is_number(value) else (type(value), value)


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    elif is_number(value):
        yield as_double(value)


def _first_number(value: object) -> float:
    number = next(_numbers(value), 0.0)
    return number if number == number else 0.0  # noqa: PLR0124  NaN equals nothing, and would not sort
