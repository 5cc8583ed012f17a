"""The statistics of the gate against vectors that other code computed."""

import pytest

from tests.conformance.statistics import Vector, differing, vectors


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
def test_figures_and_verdicts_are_equal(vector: Vector) -> None:
    assert list(differing(vector)) == []
