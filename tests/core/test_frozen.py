"""`@frozen` behaves as `@dataclass(frozen=True, slots=True)` does."""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from evalgate.core.frozen import frozen, mutable

T = TypeVar("T")


@frozen
class Ours(Generic[T]):
    """A value of every kind."""

    name: str
    value: T
    number: float = 1.5
    parts: list[int] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    clock: object = field(default=None, compare=False)
    late: str = field(default="", kw_only=True)

    @property
    def upper(self) -> str:
        """The name, louder."""
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class Theirs(Generic[T]):
    """A value of every kind."""

    name: str
    value: T
    number: float = 1.5
    parts: list[int] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    clock: object = field(default=None, compare=False)
    late: str = field(default="", kw_only=True)


def _answer(ask: Callable[[Any], object], kind: type[Any]) -> object:
    try:
        answer = ask(kind)
    except Exception as error:  # noqa: BLE001  how it fails is the answer
        answer = type(error), str(error).split(".__init__")[-1]
    return repr(answer).replace("Theirs", "Ours")


def _set(target: object, name: str) -> None:
    setattr(target, name, 1)


def _taken_apart(one: object) -> object:
    match one:
        case Ours(name, value, number, parts) | Theirs(name, value, number, parts):
            return name, value, number, parts
    return None


@pytest.mark.parametrize(
    "ask",
    [
        lambda kind: kind("a", 1),
        lambda kind: kind("a", 1, 2.0, [3], "s", 4, late="x"),
        lambda kind: kind(value=1, name="a", secret="s"),
        lambda kind: kind("a"),
        lambda kind: kind("a", 1, 2, [], "", None, "late"),
        lambda kind: kind("a", 1, unknown=2),
        lambda kind: kind("a", 1).number,
        lambda kind: kind("a", 1) == kind("a", 1),
        lambda kind: kind("a", 1) == kind("a", 2),
        lambda kind: kind("a", 1) != kind("a", 1),
        lambda kind: kind("a", 1) == "a",
        lambda kind: kind("a", 1, clock=1) == kind("a", 1, clock=2),
        lambda kind: kind("a", 1, late="x") == kind("a", 1),
        lambda kind: hash(kind("a", 1, parts=())) == hash(kind("a", 1, parts=(), clock=2)),
        lambda kind: {kind("a", 1): 1},
        lambda kind: _set(kind("a", 1), "name"),
        lambda kind: delattr(kind("a", 1), "name"),
        lambda kind: replace(kind("a", 1), name="b"),
        lambda kind: replace(kind("a", 1), unknown="b"),
        lambda kind: asdict(kind("a", kind("b", 2))),
        lambda kind: copy.copy(kind("a", [1])),
        lambda kind: copy.deepcopy(kind("a", [1])),
        lambda kind: pickle.loads(pickle.dumps(kind("a", [1], late="x"))),
        lambda kind: _taken_apart(kind("a", 1)),
        lambda kind: [(each.name, each.type, each.repr, each.compare) for each in fields(kind)],
        lambda kind: [is_dataclass(each) for each in (kind, kind("a", 1))],
        lambda kind: str(inspect.signature(kind)),
        lambda kind: kind.__doc__,
        lambda kind: kind.__slots__,
        lambda kind: vars(kind("a", 1)),
        lambda kind: TypeAdapter(kind[int]).validate_python({"name": "a", "value": "1", "parts": ["2"]}),
        lambda kind: TypeAdapter(kind[int]).dump_python(kind("a", 1)),
    ],
)  # fmt: skip
def test_it_answers_as_a_dataclass_does(ask: Callable[[Any], object]) -> None:
    assert _answer(ask, Ours) == _answer(ask, Theirs)


def test_a_value_that_differs_from_itself_is_equal_to_itself() -> None:
    nan = float("nan")

    assert Ours("a", nan) == Ours("a", nan)  # a dataclass compares so only before Python 3.13


@given(st.builds(Ours[int], name=st.text(), value=st.integers()))
def test_a_copy_is_equal_and_looks_the_same(one: Ours[int]) -> None:
    assert replace(one) == one == copy.deepcopy(one)
    assert repr(replace(one)) == repr(one)


@pytest.mark.parametrize("name", ["name", "new"])
def test_nothing_can_be_set(name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        _set(Ours("a", 1), name)


def test_what_a_factory_makes_is_made_anew() -> None:
    assert Ours("a", 1).parts is not Ours("a", 1).parts


def test_what_holds_itself_can_be_shown() -> None:
    parts: list[Any] = []
    one = Ours("a", parts)
    parts.append(one)

    assert "value=[...]" in repr(one)


def test_methods_of_its_own_stay() -> None:
    @frozen
    class Shown:
        word: str

        def __repr__(self) -> str:
            return self.word

        def __setattr__(self, name: str, value: object) -> None:
            raise ZeroDivisionError

    assert repr(Shown("x")) == "x"
    with pytest.raises(ZeroDivisionError):
        _set(Shown("x"), "word")


def test_it_is_looked_at_once_it_is_made() -> None:
    @frozen
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError(self.number)

    assert Even(2).number == 2
    with pytest.raises(ValueError, match="3"):
        Even(3)


def test_nothing_at_all_is_a_value_too() -> None:
    @frozen
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")
    assert hash(Nothing()) == hash(Nothing())


def test_a_subclass_may_say_more() -> None:
    @frozen
    class Child(Ours[int]):
        more: int = 0

    child = Child("a", 1, more=2)

    assert (child.name, child.more, child.upper) == ("a", 2, "A")
    assert child != Ours("a", 1)
    with pytest.raises(FrozenInstanceError):
        _set(child, "name")


def test_a_field_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(TypeError, match="'late' has `init=False`"):

        @frozen
        class Silent:
            late: str = field(default="", init=False)

    wrong_order = {"first": 1, "__annotations__": {"first": int, "second": int}}
    with pytest.raises(TypeError, match="default"):
        frozen(type("Backwards", (), wrong_order))


def _make_pair() -> tuple[Any, Any]:
    """A new class of ours, and one of the standard library."""
    space = {"__annotations__": {"name": str, "parts": list, "size": int}, "size": 3}
    space["parts"] = field(default_factory=list)
    ours, theirs = (type("Pair", (), dict(space)) for _ in range(2))
    return frozen(ours), dataclass(frozen=True)(theirs)


@pytest.mark.parametrize("before", [0, 40])
@pytest.mark.parametrize(
    "call",
    [
        lambda kind: kind(),
        lambda kind: kind("a", [], 1, 2),
        lambda kind: kind("a", name="b"),
        lambda kind: kind("a", colour="red"),
        lambda kind: kind("a"),
        lambda kind: kind("a", ["b"], 4),
        lambda kind: kind(size=1, name="a"),
    ],
)
def test_the_first_objects_are_made_as_all_later_ones(call: Callable[[Any], object], before: int) -> None:
    answers = []
    for kind in _make_pair():
        for _ in range(before):
            kind("x")
        try:
            answers.append(repr(call(kind)))
        except TypeError as error:
            answers.append(f"{error}")

    assert answers[0] == answers[1]


@mutable
class OurCount:
    """A count."""

    name: str
    number: int = 0
    parts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TheirCount:
    """A count."""

    name: str
    number: int = 0
    parts: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    "ask",
    [
        lambda kind: kind("a") == kind("a"),
        lambda kind: kind("a") == kind("a", 1),
        lambda kind: kind.__hash__,
        lambda kind: kind.__slots__,
        lambda kind: repr(kind("a", 2)).partition("(")[2],
        lambda kind: repr(replace(kind("a"), number=3)).partition("(")[2],
        lambda kind: asdict(kind("a")),
        lambda kind: pickle.loads(pickle.dumps(kind("a", 4))).number,
        lambda kind: str(inspect.signature(kind)),
        lambda kind: kind("a").parts is kind("a").parts,
        lambda kind: setattr(kind("a"), "colour", "red"),
    ],
)
def test_what_can_change_answers_as_a_dataclass_does(ask: Callable[[Any], object]) -> None:
    answers = []
    for kind in (OurCount, TheirCount):
        try:
            answers.append(ask(kind))
        except AttributeError as error:
            answers.append(str(error).replace("TheirCount", "OurCount"))

    assert answers[0] == answers[1]


def test_what_can_change_is_changed() -> None:
    count = OurCount("a")
    count.number += 1

    assert count.number == 1


@pytest.mark.parametrize("before", [0, 40])
def test_a_plain_subclass_keeps_what_its_base_has_set(before: int) -> None:
    @frozen
    class Base:
        name: str
        parts: tuple[str, ...] = ()

    class Late(Base):
        __slots__ = ()

        def __post_init__(self, parts: object) -> None:
            raise AssertionError(parts)

        @property
        def parts(self) -> tuple[str, ...]:
            return ("late",)

    for _ in range(before):
        Base("x")

    assert (Late("a").name, Late("a", ("b",)).parts) == ("a", ("late",))
