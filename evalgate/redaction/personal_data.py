"""Replace e-mail addresses, phone numbers and card numbers by placeholders.

Equal values get equal placeholders, so that a case still shows that a tool was called with the user's words.
Numbers are equal if they differ only in separators, such as blanks. E-mail addresses are equal if they differ
only in upper and lower case.

Only numbers with a valid check digit count as card numbers. Because eval sets are full of order numbers, only
numbers in the form of phone numbers (`+49 …`, `(030) …`, `555-123-4567`) count as phone numbers.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Literal, TypeAlias, TypeVar, cast

from evalgate.redaction.redactor import rewrite_tree

PersonalKind: TypeAlias = Literal["e-mail address", "phone number", "card number"]

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)+[A-Za-z]{2,24}(?![\w@])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_CARD_NUMBER = re.compile(r"4\d{15}|(?:5[1-5]|2[2-7]|6[045])\d{14}|3[47]\d{13}|3[068]\d{12}")
"""Pattern of card numbers as integers. A valid check digit alone is not enough: one in ten other numbers,
such as times in milliseconds, has a valid check digit by chance."""
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,12}"
    r"|\(\d{2,5}\)[ .-]?\d(?:[ .-]?\d){4,9}"
    r"|\d{3}[.-]\d{3}[.-]\d{4})(?![\w-])"
)
_DIGIT = re.compile(r"\d")
_SEPARATOR = re.compile(r"[ ().-]")
_KEPT_DOMAINS = tuple(f"{mark}example.{end}" for mark in "@." for end in ("com", "org", "net"))

_T = TypeVar("_T")


class PersonalDataRedactor:
    """Redactor that replaces personal data, and counts the replaced values."""

    def __init__(self) -> None:
        self.counts: Counter[PersonalKind] = Counter()
        """Number of different values that were replaced, by kind."""
        self._ordinals: dict[tuple[PersonalKind, str], int] = {}
        """Ordinal number, from 1, of each replaced value among the values of the same kind.

        The keys are (kind, normalized text).
        """
        self._placeholders: set[str] = set()

    def redact_tree(self, value: _T) -> _T:
        """Return `value` (a dataclass, a collection or JSON) with personal data replaced in every text.

        Integers that are card numbers are replaced, too. `value` itself is not changed.
        """
        redacted: _T = rewrite_tree(value, lambda _, text: self.redact_text(text))
        return cast("_T", self._rewrite_numbers(redacted))

    def _rewrite_numbers(self, value: object) -> object:
        """Return the value with card numbers replaced by other numbers; the same object if it has none."""
        if type(value) is int:
            return self._redact_number(value)
        if isinstance(value, dict):
            made: object = {name: self._rewrite_numbers(item) for name, item in value.items()}
        elif isinstance(value, list | tuple) and type(value) in {list, tuple}:
            made = type(value)([self._rewrite_numbers(item) for item in value])
        elif is_dataclass(value) and not isinstance(value, type):
            old = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
            new = {name: self._rewrite_numbers(item) for name, item in old.items()}
            changed = {name: item for name, item in new.items() if item is not old[name]}
            return replace(value, **changed) if changed else value
        else:
            return value
        return value if made == value else made

    def _redact_number(self, number: int) -> int:
        """Replace a card number by a 16-digit number that no card has. Return other numbers unchanged."""
        text = str(number)
        if not _CARD_NUMBER.fullmatch(text) or not _has_check_digit(text):
            return number
        return 9 * 10**15 + self._count_value("card number", text)

    def _count_value(self, kind: PersonalKind, found: str) -> int:
        """Return the ordinal number, from 1, of a value among the values of the same kind.

        A value that was not seen before gets the next number, and is counted in `counts`.
        """
        key = kind, found.lower() if kind == "e-mail address" else _SEPARATOR.sub("", found)
        if key not in self._ordinals:
            self.counts[kind] += 1
            self._ordinals[key] = self.counts[kind]
        return self._ordinals[key]

    def redact_text(self, text: str) -> str:
        """Return the text with placeholders for e-mail addresses, phone numbers and card numbers."""
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
            placeholder = form.format(self._count_value(kind, found))
            self._placeholders.add(placeholder)
            return placeholder

        return replace_match


def _has_check_digit(text: str) -> bool:
    """Return True if the digits pass the Luhn test, as every card number does."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0
