"""A folder as a tar archive, the form in which a container takes files in."""

import io
import tarfile
from pathlib import Path

_LEFT_OUT = frozenset(
    {".git", ".venv", "venv", "node_modules", "__pycache__", ".evalgate", "evalgate-report"}
)


def archive_of_file(file: Path, target: str) -> bytes:
    """A file, as `target` seen from the root; readable by everybody."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(file.resolve(), arcname=target.lstrip("/"), filter=_entry)
    return buffer.getvalue()


def archive_of(folder: Path) -> bytes:
    """The content of a folder, owned by root and readable by everybody; what is made anew is left out."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".", filter=_entry)
    return buffer.getvalue()


def _entry(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if _LEFT_OUT & set(Path(entry.name).parts):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode |= 0o555 if entry.isdir() else 0o444
    return entry
