"""Plugins that other packages bring: the entry points `evalgate.<family>` of what is installed.

The installed packages are looked through at most once a family, and only when a name is asked for that
evalgate does not have itself.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evalgate.errors import InvalidInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Family: TypeAlias = Literal["formats", "metrics", "agents", "reporters", "baselines"]


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


def load(point: "EntryPoint") -> Any:
    """What the entry point names.

    Raises:
        InvalidInput: it cannot be loaded.
    """
    try:
        return point.load()
    except Exception as error:  # the code of another package may raise anything
        raise InvalidInput(
            f"the plugin `{point.name}` of {_package(point)} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


@cache
def _entry_points(family: Family) -> tuple["EntryPoint", ...]:
    from importlib.metadata import entry_points

    return tuple(
        sorted(entry_points(group=f"evalgate.{family}"), key=lambda point: (point.name, point.value))
    )


def _package(point: "EntryPoint") -> str:
    return f"the package `{point.dist.name}`" if point.dist else f"`{point.value}`"
