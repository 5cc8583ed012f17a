"""The expressions of `-k` have the values that pytest gives them, and errors point at their column."""

import pytest
from _pytest.mark.expression import Expression
from hypothesis import given
from hypothesis import strategies as st

from evalgate.documents.keyword_expression import KeywordExpressionError, parse_keyword_expression

NAMES = ("late", "a.b", "x[1]", "fr/ca", "set:case", "notable", "order", "día")
NESTED = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join)
        | inner.map("not {}".format)
        | inner.map("( {} )".format)
    ),
    max_leaves=8,
)


@given(NESTED, st.sets(st.sampled_from(NAMES)))
def test_values_are_those_of_pytest(text: str, true: set[str]) -> None:
    expected = Expression.compile(text).evaluate(lambda name, /, **_: name in true)

    assert parse_keyword_expression(text)(true.__contains__) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected a name, `not` or `(`, not the end of the expression"),
        ("late and", 9, "expected a name, `not` or `(`, not the end of the expression"),
        ("late early", 6, "expected the end, `and` or `or`, not `early`"),
        ("(late or early", 15, "expected `)`, `and` or `or`, not the end of the expression"),
        ("late)", 5, "expected the end, `and` or `or`, not `)`"),
        ("and late", 1, "expected a name, `not` or `(`, not `and`"),
        ("not or", 5, "expected a name, `not` or `(`, not `or`"),
        ("late & early", 6, "'&' is not part of a name"),
        ("(" * 5000 + "late" + ")" * 5000, 101, "has more than 100 levels"),
        ("not " * 5000 + "late", 401, "has more than 100 levels"),
    ],
)
def test_errors_point_at_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(KeywordExpressionError) as caught:
        parse_keyword_expression(text)

    assert (caught.value.column, str(caught.value)) == (column, f"at column {column}: {message}")
