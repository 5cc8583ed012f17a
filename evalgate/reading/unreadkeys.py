"""Keys of a file that the models which read it do not know: what a conversion must not drop in silence."""

from collections.abc import Iterator
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

Location: TypeAlias = tuple[str | int, ...]


def unread_keys(model: type[BaseModel], value: object, location: Location = ()) -> Iterator[Location]:
    """Where `value`, which `model` has read, holds keys that the model passes over, to any depth.

    A key may be spelled as the field is, or in camelCase.
    """
    if not isinstance(value, dict):
        return
    fields = {}
    for name, field in model.model_fields.items():
        fields[name] = fields[to_camel(name)] = field
    for key, item in value.items():
        if key not in fields:
            if item not in (None, "", [], {}):
                yield (*location, key)
        else:
            yield from _inside(fields[key].annotation, item, (*location, key))


def _inside(annotation: Any, value: object, location: Location) -> Iterator[Location]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from unread_keys(annotation, value, location)
        return
    for inner in get_args(annotation):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _inside(inner, item, (*location, index))
        else:
            yield from _inside(inner, value, location)
