"""A folder that cannot be looked into, also not by root, who runs the tests in a container."""

from pathlib import Path

_LONGEST_PATH = 4_095


def make_forbidden_folder(below: Path) -> Path:
    """Make a folder in which looking for any file fails, because its path would be too long."""
    path = below
    while len(str(path)) < _LONGEST_PATH - 245:
        path /= "x" * 200
    path /= "x" * (_LONGEST_PATH - len(str(path)) - 6)
    path.mkdir(parents=True)
    return path
