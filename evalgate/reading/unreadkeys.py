"""Keys of a file that the models which read it do not know: what a conversion must not drop in silence."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from evalgate.reading.plainvalues import items_of

Location: TypeAlias = tuple[str | int, ...]
Spelled: TypeAlias = Callable[[str], str]
"""What keys of one meaning have in common: `evalid` for `evalId` and `eval_id`, in a lenient format."""


def unread_keys(
    model: type[BaseModel], value: object, location: Location = (), *, spelled: Spelled = str
) -> Iterator[Location]:
    """Where `value`, which `model` has read, holds keys that the model passes over, to any depth.

    A key may be spelled as the field or its alias is, or in camelCase. Keys of older shapes that a model
    converts (`older_keys`) count as read, with all that they hold.
    """
    if not isinstance(value, dict):
        return
    fields, older = _fields(model, spelled), {spelled(key) for key in getattr(model, "older_keys", tuple)()}
    for key, item in value.items():
        found = fields.get(spelled(key))
        if found is not None:
            yield from _inside(found.annotation, item, (*location, key), spelled)
        elif spelled(key) not in older and item not in (None, "", [], {}):
            yield (*location, key)


def _fields(model: type[BaseModel], spelled: Spelled) -> Mapping[str, FieldInfo]:
    return {
        spelled(spelling): field
        for name, field in model.model_fields.items()
        for spelling in (name, to_camel(name), *_aliases(field))
    }


def _aliases(field: FieldInfo) -> Iterator[str]:
    if field.alias:
        yield field.alias
    if isinstance(field.validation_alias, AliasChoices):
        yield from (choice for choice in field.validation_alias.choices if isinstance(choice, str))


def _inside(annotation: Any, value: object, location: Location, spelled: Spelled) -> Iterator[Location]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from unread_keys(annotation, value, location, spelled=spelled)
        return
    if get_origin(annotation) is dict:
        for key, item in value.items() if isinstance(value, dict) else ():
            yield from _inside(get_args(annotation)[1], item, (*location, key), spelled)
        return
    for inner in get_args(annotation):
        if (items := items_of(value)) is not None:
            for index, item in enumerate(items):
                yield from _inside(inner, item, (*location, index), spelled)
        else:
            yield from _inside(inner, value, location, spelled)
