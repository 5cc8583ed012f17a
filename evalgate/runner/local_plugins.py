"""Find packages with plugins of evalgate that were installed from files of the working folder."""

import json
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import get_args
from urllib.parse import unquote, urlsplit

from evalgate.core import registry


def find_local_packages(folder: Path) -> Mapping[str, Path]:
    """Return name and source folder of each package with plugins that was installed from within `folder`.

    `folder` is absolute. A package counts if its source is `folder` itself or a folder below.
    """
    found = {}
    for family in get_args(registry.Family):
        for point in registry.list_entry_points(family):
            if point.dist and (source := _find_install_folder(point.dist)).is_relative_to(folder):
                found[point.dist.name] = source
    return found


def _find_install_folder(package: Distribution) -> Path:
    """Return the folder that a package was installed from (PEP 610); `/` if it came from elsewhere."""
    try:
        address = json.loads(package.read_text("direct_url.json") or "{}")["url"]
        return Path(unquote(urlsplit(address).path)) if address.startswith("file:") else Path("/")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Path("/")
