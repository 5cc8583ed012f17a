"""A folder in which no file can be found, not even by root, because tests may run as root in a container."""

from pathlib import Path

_LONGEST_PATH = 4_095


def make_forbidden_folder(below: Path) -> Path:
    """Create a folder with such a long path that looking for any file in it fails. Return its path."""
    path = below
    while len(str(path)) < _LONGEST_PATH - 245:
        path /= "x" * 200
    path /= "x" * (_LONGEST_PATH - len(str(path)) - 6)
    path.mkdir(parents=True)
    return path
