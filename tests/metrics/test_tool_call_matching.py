import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import ToolCall
from evalgate.metrics.tool_call_matching import diff_trajectories, render_call


def calls(names: str) -> list[ToolCall]:
    """`ab3` is a(), b() with the argument 3 …: a letter is a tool, a digit after it its argument."""
    found: list[ToolCall] = []
    for character in names:
        if character.isdigit():
            found[-1] = ToolCall(found[-1].name, {"n": int(character)})
        else:
            found.append(ToolCall(character, {}))
    return found


def shown(expected: str, actual: str, lines: int = 10) -> list[str]:
    diff = diff_trajectories(calls(expected), calls(actual), lines=lines)
    return [f"{line.sign}{line.text}{' !' if line.diverges else ''}" for line in diff]


@pytest.mark.parametrize(
    ("expected", "actual", "diff"),
    [
        ("", "", []),
        ("abc", "abc", []),
        ("ab", "a", [" a()", "-b() !"]),
        ("a", "ab", [" a()", "+b() !"]),
        ("ab", "b", ["-a() !", " b()"]),
        ("b", "ab", ["+a() !", " b()"]),
        ("a1", "a2", ["-a(n=1) !", "+a(n=2)"]),
        ("a1b", "a2b", ["-a(n=1) !", "+a(n=2)", " b()"]),
        ("ab", "ba", ["-a() !", " b()", "+a()"]),
        ("abcd", "abxd", [" a()", " b()", "-c() !", "+x()", " d()"]),
        ("a", "", ["-a() !"]),
        ("abcde", "abcdx", [" … 2 more calls as expected", " c()", " d()", "-e() !", "+x()"]),
        ("abcx", "abcy", [" … 1 more call as expected", " b()", " c()", "-x() !", "+y()"]),
    ],
)
def test_alignment(expected: str, actual: str, diff: list[str]) -> None:
    assert shown(expected, actual) == diff


def test_no_arguments_and_none_named_are_the_same() -> None:
    assert diff_trajectories([ToolCall("a", None)], [ToolCall("a", {})]) == ()


def test_the_order_of_arguments_does_not_matter() -> None:
    one, other = ToolCall("a", {"x": 1, "y": [2]}), ToolCall("a", {"y": [2], "x": 1})
    assert diff_trajectories([one], [other]) == ()


def test_arguments_that_are_no_object_differ_and_are_shown() -> None:
    one, other = (ToolCall("a", other_args=found) for found in ("Oslo", ["Oslo", 2]))
    assert diff_trajectories([one], [one]) == ()
    before, after = diff_trajectories([one], [other])
    assert (before.text, after.text) == ('a("Oslo")', 'a(["Oslo", 2])')
    assert [line.text for line in diff_trajectories([one], [ToolCall("a")])] == ['a("Oslo")', "a()"]


def test_long_differences_are_cut_and_counted() -> None:
    assert shown("x", "abcdefghij", lines=4) == ["-x() !", "+a()", "+b()", " … 8 more calls not shown"]


def test_thousands_of_calls_are_no_problem() -> None:
    diff = diff_trajectories(calls("a" * 5000), calls("b" * 5000))
    assert diff[-1].text == "… 9,991 more calls not shown"


def test_what_differs_is_in_sight_in_long_arguments() -> None:
    long = "x" * 500
    one, other = (
        ToolCall("search", {"q": f"{long}Paris{long}"}),
        ToolCall("search", {"q": f"{long}London{long}"}),
    )
    before, after = diff_trajectories([one], [other], width=60)
    assert (len(before.text), len(after.text)) == (60, 60)
    assert before.text.startswith("search(…xxx")
    assert "xParisx" in before.text
    assert "xLondonx" in after.text


def test_what_cannot_be_seen_is_spelled_out() -> None:
    before, after = diff_trajectories([ToolCall("a", {"x": "b"})], [ToolCall("a", {"x": "b\u200b"})])
    assert (before.text, after.text) == ('a(x="b")', r'a(x="b\u200b")')


def test_a_call_on_one_line() -> None:
    call = ToolCall("book", {"to": "Zürich", "bags": [1, None], "note": "two\nlines"})
    assert render_call(call) == r'book(to="Zürich", bags=[1, null], note="two\nlines")'


NAMES = st.text("abc12", max_size=12).map(lambda text: f"a{text}")


@given(NAMES, NAMES)
def test_the_difference_tells_both_sides(expected: str, actual: str) -> None:
    left, right = calls(expected), calls(actual)
    diff = diff_trajectories(left, right, lines=1000)
    assert bool(diff) == (left != right)
    if diff:
        assert [line.diverges for line in diff].count(True) == 1
        hidden = int(diff[0].text.split()[1]) if diff[0].text.startswith("…") else 0
        rest = diff[1:] if hidden else diff
        assert [line.text for line in rest if line.sign != "+"] == [
            render_call(call) for call in left[hidden:]
        ]
        assert [line.text for line in rest if line.sign != "-"] == [
            render_call(call) for call in right[hidden:]
        ]


@given(NAMES, NAMES, st.integers(6, 12))
def test_the_difference_is_no_longer_than_asked(expected: str, actual: str, lines: int) -> None:
    diff = diff_trajectories(calls(expected), calls(actual), lines=lines)
    assert len(diff) <= lines
    assert not diff or any(line.diverges for line in diff)


@given(NAMES)
def test_a_trajectory_does_not_differ_from_itself(names: str) -> None:
    assert diff_trajectories(calls(names), calls(names)) == ()
