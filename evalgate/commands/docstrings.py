"""Docstrings of fields, which Python does not keep: read from the source."""

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping

from pydantic import AliasChoices, BaseModel


def read_field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the text below each field of a model, by the key that users write."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found.update(_docstrings_of(cls))
    keys = {name: _key(model, name) for name in model.model_fields}
    return {keys[name]: text for name, text in found.items() if name in keys}


def _key(model: type[BaseModel], name: str) -> str:
    alias = model.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0] if isinstance(alias.choices[0], str) else None
    return alias if isinstance(alias, str) else name


def _docstrings_of(cls: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(cls))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, below in itertools.pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
