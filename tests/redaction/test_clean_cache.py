"""The cache of clean objects stays correct when it is full."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.redaction import live_redactor
from evalgate.redaction.live_redactor import CleanCache


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12))
def test_what_was_added_is_known_and_nothing_else(sizes: list[int]) -> None:
    known, others = CleanCache(), [object() for _ in range(5)]
    added: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_redactor, "_MIN_RESORTED", 3)
        for size in sizes:
            parts = [object() for _ in range(size)]
            known.add(parts)
            added += parts
            assert all(id(each) in known for each in added)
            assert not any(id(each) in known for each in others)


def test_no_other_object_gets_the_identity_of_a_part() -> None:
    known = CleanCache()
    known.add([object()])
    later = [object() for _ in range(100)]
    assert not any(id(each) in known for each in later)
