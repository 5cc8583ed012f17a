"""Objects built while garbage collection is paused are kept, and skipped by the next collection."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from evalgate.system.gc import pause_gc


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_the_collector_is_as_before(switch: Callable[[], None]) -> None:
    switch()
    before = gc.isenabled()
    with pause_gc():
        assert not gc.isenabled()
    assert gc.isenabled() is before


def test_what_was_built_meanwhile_is_found_by_a_whole_collection() -> None:
    gc.enable()
    with pause_gc():
        lost = weakref.ref(Cycle())
    gc.collect()
    assert lost() is None


def test_no_look_at_young_objects_goes_through_what_was_built_meanwhile() -> None:
    gc.enable()
    frozen = gc.get_freeze_count()
    with pause_gc():
        kept = [Cycle() for _ in range(1000)]
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not young & set(map(id, kept))
    assert gc.get_freeze_count() <= frozen
