"""Hypothesis strategies for lists of small tool calls, and a tool call with deeply nested arguments."""

from hypothesis import strategies as st

from evalgate.core.types import ToolCall

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from([0.0, 1.0, 0.5, -0.0])
    | st.sampled_from("01"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
ARGS = st.none() | st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
CALLS = st.lists(st.builds(ToolCall, st.sampled_from("fg"), ARGS), max_size=5)


def nest_arguments() -> ToolCall:
    """Return a call with more levels of arguments than the interpreter can compare."""
    args: dict[str, object] = {}
    for _ in range(100_000):
        args = {"a": args}
    return ToolCall("f", args)
