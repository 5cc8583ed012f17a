"""A part of a text."""

from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Start and end in a text."""
