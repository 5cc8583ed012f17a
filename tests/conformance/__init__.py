"""Tests against reference material outside of the repository, if it is available."""

import os
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]


def shared_folder() -> Path | None:
    """Return the folder with reference material: $EVALGATE_SHARED, or `shared` next to the repository; or None."""
    named = os.environ.get("EVALGATE_SHARED")
    folder = Path(named) if named else _REPOSITORY.parent / "shared"
    return folder if folder.is_dir() else None
