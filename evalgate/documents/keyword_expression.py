r"""Parse the expressions of `-k`, as pytest defines them: names with `and`, `or`, `not` and parentheses.

    expression: and_test ("or" and_test)*
    and_test:   not_test ("and" not_test)*
    not_test:   "not" not_test | "(" expression ")" | name

A name is a run of letters, digits and `_ : + - . [ ] \ /`. The original is `_pytest/mark/expression.py`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, NoReturn, TypeAlias

Matcher: TypeAlias = Callable[[Callable[[str], bool]], bool]
"""Function that evaluates a parsed expression: it returns True if the expression holds. Its argument is a
function that returns True for each name that matches."""

_TokenKind: TypeAlias = Literal["name", "(", ")", "end"]

_BLANKS = re.compile(r"[ \t]*")
_NAME = re.compile(r"[\w:+\-.\[\]\\/]+")
_WORDS = ("and", "or", "not")
_MOST_LEVELS = 100
"""Largest depth of nesting: each level takes some of Python's stack."""


class KeywordExpressionError(ValueError):
    """Error for an expression with a wrong syntax; `column` is the 1-based column of the mistake."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(f"at column {column}: {message}")
        self.column = column


class _Token(NamedTuple):
    kind: _TokenKind
    text: str
    column: int

    @property
    def is_word(self) -> bool:
        """Return True for `and`, `or` and `not`, which are not names."""
        return self.kind == "name" and self.text in _WORDS

    def describe(self) -> str:
        """Return the name of the token for error messages."""
        return "the end of the expression" if self.kind == "end" else f"`{self.text}`"


def parse_keyword_expression(text: str) -> Matcher:
    """Return a function that evaluates the expression `text`.

    The returned function returns True if the expression holds. Its argument is a function that gets a name
    and returns True if the name matches.

    Raises:
        KeywordExpressionError: the text is empty or no expression, or nests deeper than 100 levels.
    """
    parser = _Parser(text)
    matcher = parser.parse_or()
    parser.expect_end()
    return matcher


def _iter_tokens(text: str) -> Iterator[_Token]:
    at = 0
    while (at := _find_end(_BLANKS, text, at)) < len(text):
        if text[at] in "()":
            yield _Token("(" if text[at] == "(" else ")", text[at], at + 1)
            at += 1
            continue
        end = _find_end(_NAME, text, at)
        if end == at:
            raise KeywordExpressionError(at + 1, f"{text[at]!r} is not part of a name")
        yield _Token("name", text[at:end], at + 1)
        at = end
    yield _Token("end", "", len(text) + 1)


def _find_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _iter_tokens(text)
        self._next = next(self._tokens)
        self._level = 0

    def parse_or(self) -> Matcher:
        """Parse `a or b or c`, and return a function that evaluates it."""
        parts = [self._parse_and()]
        while self._take_word("or"):
            parts.append(self._parse_and())
        return parts[0] if len(parts) == 1 else lambda matches: any(part(matches) for part in parts)

    def expect_end(self) -> None:
        """Raise KeywordExpressionError if a part of the text is not parsed yet."""
        if self._next.kind != "end":
            self._reject("the end, `and` or `or`")

    def _parse_and(self) -> Matcher:
        parts = [self._parse_not()]
        while self._take_word("and"):
            parts.append(self._parse_not())
        return parts[0] if len(parts) == 1 else lambda matches: all(part(matches) for part in parts)

    def _parse_not(self) -> Matcher:
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise KeywordExpressionError(self._next.column, f"has more than {_MOST_LEVELS} levels")
        try:
            return self._parse_operand()
        finally:
            self._level -= 1

    def _parse_operand(self) -> Matcher:
        if self._take_word("not"):
            negated = self._parse_not()
            return lambda matches: not negated(matches)
        if self._next.kind == "(":
            self._advance()
            inner = self.parse_or()
            if (closing := self._advance()).kind != ")":
                self._reject("`)`, `and` or `or`", closing)
            return inner
        if self._next.kind != "name" or self._next.is_word:
            self._reject("a name, `not` or `(`")
        name = self._advance().text
        return lambda matches: matches(name)

    def _take_word(self, word: str) -> bool:
        if self._next.kind != "name" or self._next.text != word:
            return False
        self._advance()
        return True

    def _advance(self) -> _Token:
        token, self._next = self._next, next(self._tokens, self._next)
        return token

    def _reject(self, expected: str, token: _Token | None = None) -> NoReturn:
        token = token or self._next
        raise KeywordExpressionError(token.column, f"expected {expected}, not {token.describe()}")
