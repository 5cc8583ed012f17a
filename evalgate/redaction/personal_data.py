"""Replacement of e-mail addresses, phone numbers and card numbers by placeholders.

Equal values get equal placeholders, so that a case still shows that a tool was called with the user's words.
Only numbers with a valid check digit count as card numbers, and only those that are written as phone numbers
(`+49 …`, `(030) …`, `555-123-4567`) as such: an eval set is full of order numbers.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from evalgate.redaction.redactor import rewrite_tree

PersonalKind: TypeAlias = Literal["e-mail address", "phone number", "card number"]

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)+[A-Za-z]{2,24}(?![\w@])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,12}"
    r"|\(\d{2,5}\)[ .-]?\d(?:[ .-]?\d){4,9}"
    r"|\d{3}[.-]\d{3}[.-]\d{4})(?![\w-])"
)
_DIGIT = re.compile(r"\d")
_KEPT_DOMAINS = tuple(f"{mark}example.{end}" for mark in "@." for end in ("com", "org", "net"))

_T = TypeVar("_T")


class PersonalDataRedactor:
    """Replaces personal data, and counts what it replaced."""

    def __init__(self) -> None:
        self.counts: Counter[PersonalKind] = Counter()
        """Different values that were replaced, by kind."""
        self._known: dict[str, str] = {}
        self._placeholders: set[str] = set()

    def redact_tree(self, value: _T) -> _T:
        """Return a dataclass, a collection or JSON with every text redacted."""
        redacted: _T = rewrite_tree(value, lambda _, text: self.redact_text(text))
        return redacted

    def redact_text(self, text: str) -> str:
        """Return the text with placeholders."""
        if "@" in text:
            text = _EMAIL.sub(self._build_replacer("e-mail address", "user{}@example.com"), text)
        if _DIGIT.search(text):
            text = _CARD.sub(self._build_replacer("card number", "0000 0000 0000 {:04}"), text)
            text = _PHONE.sub(self._build_replacer("phone number", "+1 555 01{:02}"), text)
        return text

    def _build_replacer(self, kind: PersonalKind, form: str) -> Callable[[re.Match[str]], str]:
        def replace_match(match: re.Match[str]) -> str:
            found = match[0]
            if kind == "card number" and not _has_check_digit(found):
                return found
            if found in self._placeholders or found.lower().endswith(_KEPT_DOMAINS):
                return found
            if found not in self._known:
                self.counts[kind] += 1
                self._known[found] = form.format(self.counts[kind])
                self._placeholders.add(self._known[found])
            return self._known[found]

        return replace_match


def _has_check_digit(text: str) -> bool:
    """Return True if the digits pass the Luhn test, as those of every card do."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0
