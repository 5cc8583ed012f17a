"""Traces of agents that report anything."""

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.host.trace_values import (
    MOST_CHARACTERS,
    MOST_RUN_CHARACTERS,
    MOST_SPANS,
    ValueClipper,
)
from evalgate.agents.tracing.run_trace import RunTrace
from evalgate.core.types import TraceSpan
from evalgate.redaction.redactor import Redactor

SECONDS = st.floats() | st.floats(0, 2)
IDS = st.sampled_from(["", "a", "b", "c", "d"])
SPANS = st.builds(
    TraceSpan,
    IDS,
    st.text(),
    st.sampled_from(["agent", "model", "tool", "other"]),
    st.just(0),
    SECONDS,
    SECONDS,
    IDS,
)


@given(st.lists(st.lists(SPANS, max_size=8), max_size=3))
def test_a_trace_is_one_tree_a_turn_whatever_was_reported(turns: list[list[TraceSpan]]) -> None:
    trace = RunTrace()
    for number, spans in enumerate(turns):
        trace.add_turn(spans, start_s=2.0 * number, duration_s=1.5)
    found = trace.build_spans()

    before: set[str] = set()
    for span in found:
        assert span.id not in before
        assert span.parent_id == "" or span.parent_id in before
        assert 2.0 * span.turn <= span.start_s
        assert span.start_s + span.duration_s <= 2.0 * span.turn + 1.5 + 1e-5
        before.add(span.id)
    assert [span.turn for span in found if not span.parent_id] == list(range(len(turns)))
    assert sum(map(len, turns)) <= len(found) <= sum(map(len, turns)) + len(turns)


def test_a_run_with_too_many_steps_keeps_the_root_of_each_turn_and_says_so() -> None:
    trace = RunTrace()
    many = [TraceSpan(str(number), "find", "tool", 0, 0.0, 0.0) for number in range(MOST_SPANS * 2)]
    for _ in range(3):
        trace.add_turn(many, start_s=0.0, duration_s=1.0)
    found = trace.build_spans()

    assert len(found) == MOST_SPANS + 2
    assert [span.turn for span in found if not span.parent_id] == [0, 1, 2]
    assert found[0].attributes == {"evalgate.steps_left_out": 6 * MOST_SPANS + 3 - len(found)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


@given(JSON, st.integers(1, 300))
def test_what_is_cut_stays_json_of_about_the_size(value: object, most: int) -> None:
    text = json.dumps(ValueClipper().clip_value(value, most), allow_nan=False, ensure_ascii=False)
    assert len(text.replace("\\", "")) < 20 * most + 1000


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists))
def test_what_is_small_enough_is_kept_whole(value: object) -> None:
    assert ValueClipper().clip_value(value) == value


def test_a_hundred_megabytes_are_cut_in_no_time() -> None:
    began = time.process_time()
    clipper, huge = ValueClipper(), "x" * (100 << 20)
    cut = clipper.clip_value({"system": "be kind", "messages": [huge] * 100, "tools": ["t"] * 10_000_000})
    assert len(json.dumps(cut)) < MOST_CHARACTERS * 2
    assert "more" in json.dumps(cut)
    assert time.process_time() - began < 5
    for _ in range(30):
        clipper.clip_value(huge)
    assert clipper.clip_value("more") == "… left out: the trace of this run is full"
    assert MOST_RUN_CHARACTERS > MOST_CHARACTERS


def test_a_secret_that_a_cut_falls_into_is_still_found() -> None:
    secret = "correct-horse-battery-staple"
    most = 400
    for shift in range(1, len(secret) // 2):
        text = "x" * (most * 3 // 4 - 8 - len(secret) + shift) + secret + "y" * 1000
        cut = ValueClipper().clip_value(text, most)
        redacted = Redactor.from_environment({"A_PASSWORD": secret}).redact_tree({"request": cut})
        assert secret[: len(secret) // 2] not in json.dumps(redacted)
