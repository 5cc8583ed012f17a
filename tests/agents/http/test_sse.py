"""Server-sent events, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.http.response_body import SseReader


def read(*pieces: bytes) -> list[str]:
    reader = SseReader()
    return [*(data for piece in pieces for data in reader.parse_bytes(piece)), *reader.finish_stream()]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: a\n\n", ["a"]),
        (b"data:a\r\n\r\ndata:  b\r\rdata: c\n\n", ["a", " b", "c"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": comment\nevent: x\nid: 3\nretry: 9\n\ndata\n\n", [""]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\r\n", ["a"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_reads(stream: bytes, events: list[str]) -> None:
    assert read(stream) == events


@given(
    st.lists(
        st.sampled_from([b"data: a", b"data: b:c", b":x", b"\n", b"\r\n", b"\r", b"\xc3\xa9"]), max_size=12
    ),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_where_a_stream_is_cut_makes_no_difference(words: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(words)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read(*(stream[start:end] for start, end in pairwise(places))) == read(stream)


def test_a_line_in_many_pieces_is_looked_at_once() -> None:
    reader, pieces, size = SseReader(), 2_000, 10_000
    assert list(reader.parse_bytes(b"data: ")) == []
    # 20 MB: to look at all of it for each piece would take a minute.
    assert [data for _ in range(pieces) for data in reader.parse_bytes(b"a" * size)] == []
    assert [len(data) for data in reader.parse_bytes(b"\n\n")] == [pieces * size]
