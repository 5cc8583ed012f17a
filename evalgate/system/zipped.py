"""One file out of a zip that somebody else made. Nothing is unpacked to the disk."""

import io
import zipfile
import zlib


class BadZip(Exception):
    """It cannot be used; the text says why."""


def file_in_zip(data: bytes, name: str, *, largest: int) -> bytes:
    """The file called `name`, which is not larger than `largest` bytes.

    What the zip says of sizes and checksums is not believed: no more is read than may be.

    Raises:
        BadZip: it is no zip, has no such file or several, or the file is larger, encrypted or damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read(archive, _entry(archive, name), largest)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise BadZip("it is no zip, or damaged") from None
    except (RuntimeError, NotImplementedError):
        raise BadZip(f"its `{name}` is encrypted, or packed in a way that is not known") from None


def _entry(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    found = [entry for entry in archive.infolist() if entry.filename == name]
    if len(found) > 1:
        raise BadZip(f"it holds `{name}` {len(found)} times")
    if not found:
        others = ", ".join(entry.filename for entry in archive.infolist()[:5])
        raise BadZip(f"it holds no `{name}`, but {others or 'nothing'}")
    return found[0]


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, largest: int) -> bytes:
    with archive.open(entry) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise BadZip(f"its `{entry.filename}` is larger than {largest:,} bytes")
    return content
