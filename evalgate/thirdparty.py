"""Plugins that other packages bring: the entry points `evalgate.<family>` of what is installed.

The installed packages are looked through at most once a family, and only when a name is asked for that
evalgate does not have itself.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit

from evalgate.errors import EvalgateError, InvalidInput, Problem
from evalgate.hostile import one_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

Family: TypeAlias = Literal["formats", "metrics", "agents", "reporters", "baselines"]

_QUOTED = 400  # characters of another package's own words


def third_party(family: Family, own: Collection[str]) -> Mapping[str, "EntryPoint"]:
    """Name → entry point, in order of names.

    Raises:
        InvalidInput: two packages bring the same name, or one brings a name of evalgate's own.
    """
    found: dict[str, EntryPoint] = {}
    problems = []
    for point in _entry_points(family):
        if point.name in own:
            problems.append(
                f"the plugin `{point.name}` of {_package(point)} "
                f"has the name of one of evalgate's own {family}"
            )
        elif point.name in found and point.value != found[point.name].value:
            both = f"{_package(found[point.name])} and {_package(point)}"
            problems.append(f"the plugin `{point.name}` of evalgate's {family} is brought by both {both}")
        else:
            found[point.name] = point
    if problems:
        raise InvalidInput("; ".join(problems) + ": uninstall one")
    return found


def find_local_packages(folder: Path) -> Mapping[str, Path]:
    """Return the packages with plugins that were installed from below `folder`, with the place of each."""
    found = {}
    for family in get_args(Family):
        for point in _entry_points(family):
            if point.dist and (place := _installed_from(point.dist)).is_relative_to(folder):
                found[point.dist.name] = place
    return found


def _installed_from(package: "Distribution") -> Path:
    """Return the folder that a package was installed from (PEP 610); the root folder if it was none."""
    try:
        address = json.loads(package.read_text("direct_url.json") or "{}")["url"]
        return Path(unquote(urlsplit(address).path)) if address.startswith("file:") else Path("/")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Path("/")


def load(point: "EntryPoint") -> Any:
    """What the entry point names.

    Raises:
        InvalidInput: it cannot be loaded.
    """
    try:
        return point.load()
    except Exception as error:  # the code of another package may raise anything
        raise InvalidInput(f"{_named(point)} cannot be loaded: {_said(error)}") from error


@contextmanager
def blamed(family: Family, own: Collection[str], name: str, where: Problem) -> Iterator[None]:
    """What the plugin of that name raises while the block makes something of it is its package's fault.

    `where` says what of the user's asks for it. What evalgate's own plugins raise stays as it is.

    Raises:
        InvalidInput: instead of what another package's plugin raised.
    """
    try:
        yield
    except EvalgateError:
        raise
    except Exception as error:
        point = None if name in own else third_party(family, own).get(name)
        if point is None:
            raise
        sentence = f"{where.message}: {_named(point)} cannot be used: {_said(error)}"
        raise InvalidInput([replace(where, message=sentence)]) from error


@cache
def _entry_points(family: Family) -> tuple["EntryPoint", ...]:
    from importlib.metadata import entry_points

    return tuple(
        sorted(entry_points(group=f"evalgate.{family}"), key=lambda point: (point.name, point.value))
    )


def _named(point: "EntryPoint") -> str:
    return f"the plugin `{point.name}` of {_package(point)}"


def _said(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", _QUOTED)


def _package(point: "EntryPoint") -> str:
    return f"the package `{point.dist.name}`" if point.dist else f"`{point.value}`"
