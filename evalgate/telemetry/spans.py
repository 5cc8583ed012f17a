"""A span, as much of it as is read, from whichever format."""

from dataclasses import field

from evalgate.frozen import frozen
from evalgate.model import JsonObject


@frozen
class SpanEvent:
    """Something that happened within a span."""

    name: str
    attributes: JsonObject


@frozen
class Span:
    """One span. Ids are lower-case hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str
    """Empty: it has none."""
    name: str
    start: int
    """Nanoseconds since the epoch."""
    end: int
    attributes: JsonObject
    resource: JsonObject = field(default_factory=dict)
    """Attributes of the program that made it."""
    events: tuple[SpanEvent, ...] = ()

    def get(self, *names: str) -> object:
        """The first attribute of those names that is there, of the span or else of its program."""
        for attributes in (self.attributes, self.resource):
            for name in names:
                if name in attributes:
                    return attributes[name]
        return None

    def text(self, *names: str) -> str:
        """The first of those attributes that is a text; else empty."""
        found = self.get(*names)
        return found if isinstance(found, str) else ""
