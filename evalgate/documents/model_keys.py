"""List the keys that an object in a file may have, by the pydantic model that reads the file."""

from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel


def list_keys(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """Return the sorted keys that are valid at the place of an unknown key, the last one of `location`.

    `location` is from one of pydantic's errors for `model`, so it may contain names of members of a union,
    which are not keys of the file. A field is listed by its alias if the unknown key is in camelCase, or if
    the model accepts only the alias.
    """
    types: list[Any] = [model]
    for part in location[:-1]:
        types = [inner for each in types for inner in _iter_inner_types(each, part)] or types
    in_camel_case = any(map(str.isupper, str(location[-1]))) if location else False
    models = _select_models(types)
    if not models:  # the type is a list, and an item may be written in place of a list with this item
        items = (inner for each in types for item in get_args(each) for inner in _unfold_union(item))
        models = _select_models(items)
    return sorted({key for each in models for key in _iter_keys(each, in_camel_case=in_camel_case)})


def _select_models(types: Iterable[Any]) -> list[type[BaseModel]]:
    return [each for each in types if isinstance(each, type) and issubclass(each, BaseModel)]


def _iter_keys(model: type[BaseModel], *, in_camel_case: bool) -> Iterator[str]:
    for name, field in model.model_fields.items():
        is_alias_only = not (model.model_config.get("populate_by_name") or field.alias is None)
        yield field.alias if field.alias and (in_camel_case or is_alias_only) else name


def _iter_inner_types(annotation: Any, part: str | int) -> Iterator[Any]:
    """Yield the possible types of the value at the key or index `part` in a value of type `annotation`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            choices = (
                field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else ()
            )
            if part in {name, field.alias, *(each for each in choices if isinstance(each, str))}:
                yield from _unfold_union(field.annotation)
    elif isinstance(part, int) != (len(args := get_args(annotation)) == 2 and args[1] is not ...):
        yield from _unfold_union(args[-1 if isinstance(part, str) else 0]) if args else ()


def _unfold_union(annotation: Any) -> Iterable[Any]:
    """Return the member types of a union, or a single type alone; `Annotated` is removed from both."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _unfold_union(args[0])
    if origin in {Union, UnionType}:
        return [inner for each in args for inner in _unfold_union(each)]
    return [annotation]
