"""Copying of files and folders into a container. Folders such as `.venv` and `.git` are left out."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker.models.containers import Container

LEFT_OUT = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".evalgate", "evalgate-report"})
"""Names of files and folders that are not copied into containers, because they can be created again."""


def copy_into_container(container: "Container", copied: Iterable[tuple[Path, str]]) -> None:
    """Copy files and folders into an existing container, which need not run.

    `copied` has a pair for each file or folder: its path on this machine, and its path in the container.

    Raises:
        docker.errors.APIError: the daemon refuses.
        OSError: a file cannot be read.
    """
    for source, target in copied:
        if source.is_dir():
            container.put_archive(target, build_folder_archive(source))
        else:
            container.put_archive("/", build_file_archive(source, target))


def build_file_archive(file: Path, target: str) -> bytes:
    """Return a tar archive of a file at the path `target`, owned by root and readable by every user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(file.resolve(), arcname=target.lstrip("/"), filter=_normalize_entry)
    return buffer.getvalue()


def build_folder_archive(folder: Path) -> bytes:
    """Return a tar archive of a folder, owned by root and readable by every user.

    Files and folders with a name in `LEFT_OUT`, such as `.git`, are left out.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".", filter=_select_entry)
    return buffer.getvalue()


def _select_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT & set(Path(entry.name).parts) else _normalize_entry(entry)


def _normalize_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    # Ids of this machine mean other users in the container, or none.
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode |= 0o555 if entry.isdir() else 0o444
    return entry
