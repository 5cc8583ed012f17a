"""Check one text, such as a response or the content of a file."""

import json
from collections.abc import Iterator, Sequence

from evalgate.config.schema.checks import TextRule
from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import shorten_text, to_one_line
from evalgate.documents.json_schemas import build_schema_check
from evalgate.documents.re2_patterns import has_regex_match
from evalgate.documents.strict_json import NotStrictJsonError, reject_constant

_LONGEST_TEXT = 100


def quote_text(text: str) -> str:
    """Return the text on one line in quotation marks, with at most 100 characters."""
    return f"“{shorten_text(to_one_line(text), _LONGEST_TEXT)}”"


def _describe_texts(texts: Sequence[str]) -> str:
    return quote_text(texts[0]) if len(texts) == 1 else f"none in {pluralize(len(texts), 'response')}"


class TextCondition:
    """The conditions of a `TextRule`, which need neither a model nor an expected response."""

    def __init__(self, rule: TextRule) -> None:
        self._fold = rule.ignore_case
        self._contains = [(each, self._normalize(each)) for each in rule.contains or ()]
        self._not_contains = [(each, self._normalize(each)) for each in rule.not_contains or ()]
        self._equals = rule.equals
        self._starts_with = rule.starts_with
        self._pattern = rule.matches
        self._max_words = rule.max_words
        self.wants = bool(
            self._contains or rule.matches is not None or rule.equals is not None or rule.starts_with
        )
        """True if a text or pattern is required."""
        self.limits = bool(self._not_contains or self._max_words)
        """True if a text is forbidden, or the number of words is limited."""
        self._complain = build_schema_check(rule.json_schema) if rule.json_schema is not None else None

    def _normalize(self, text: str) -> str:
        return text.casefold() if self._fold else text

    def find_faults(self, text: str) -> Iterator[str]:
        """Yield the end of a sentence, such as "should contain …", for each condition that does not hold."""
        yield from self.find_lacking([text])
        yield from self.find_excess(text)
        if self._complain is not None and (fault := self.find_schema_fault(text)):
            yield fault

    def find_lacking(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield the end of a sentence for each required text or pattern that is not found in any of `texts`.

        Depending on the rule, a required text must be a part, the beginning or the whole of one of `texts`.
        """
        if self._contains:
            normalized = [self._normalize(text) for text in texts] if self._fold else texts
            for shown, part in self._contains:
                if not [text for text in normalized if part in text]:
                    word = json.dumps(shown, ensure_ascii=False)
                    yield f"should contain {word}, found {_describe_texts(texts)}"
        if self._equals is not None:
            whole = self._normalize(self._equals)
            if not any(self._normalize(text) == whole for text in texts):
                yield f"should be {quote_text(self._equals)}, found {_describe_texts(texts)}"
        if self._starts_with is not None:
            start = self._normalize(self._starts_with)
            if not any(self._normalize(text).startswith(start) for text in texts):
                yield f"should start with {quote_text(self._starts_with)}, found {_describe_texts(texts)}"
        pattern = self._pattern
        if pattern is not None and not any(has_regex_match(pattern, text) for text in texts):
            yield f"should match `{self._pattern}`, found {_describe_texts(texts)}"

    def find_excess(self, text: str) -> Iterator[str]:
        """Yield the end of a sentence for each forbidden text in `text`, and for too many words."""
        if self._not_contains:
            normalized = self._normalize(text)
            for shown, part in self._not_contains:
                if part in normalized:
                    word = json.dumps(shown, ensure_ascii=False)
                    yield f"should not contain {word}, found {quote_text(text)}"
        if self._max_words is not None and (words := len(text.split())) > self._max_words:
            yield f"should have at most {pluralize(self._max_words, 'word')}, found {words}"

    def find_schema_fault(self, text: str) -> str:
        """Return the end of a sentence if the text is not JSON, or does not fit the JSON Schema.

        Return "" if the text fits, or if the rule has no schema.
        """
        if self._complain is None:
            return ""
        try:
            value = json.loads(text, parse_constant=reject_constant)
        except (ValueError, RecursionError, NotStrictJsonError):
            return f"should be JSON, found {quote_text(text)}"
        complaint = self._complain(value)
        return f"should fit its JSON Schema: {complaint}, found {quote_text(text)}" if complaint else ""
