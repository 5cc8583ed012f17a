"""Tests against material that is not part of the repository, where it is at hand."""

import os
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]


def shared_folder() -> Path | None:
    """The folder with reference material: $EVALGATE_SHARED, or `shared` beside the repository; None without."""
    named = os.environ.get("EVALGATE_SHARED")
    folder = Path(named) if named else _REPOSITORY.parent / "shared"
    return folder if folder.is_dir() else None
