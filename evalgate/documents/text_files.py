"""Text files as users write them: UTF-8, with or without a byte-order mark."""

import codecs
import csv
import io
from collections.abc import Iterator
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.system.files import SpecialFileError, read_file

_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-32 begins with one of them, or with two zeros


def decode_text(data: bytes, shown_as: str) -> str:
    """Decode UTF-8.

    Raises:
        InvalidInputError: it is another encoding, which the message names if it can be detected.
    """
    if data.startswith(_UTF_16_MARKS) or b"\0" in data[:4]:
        message = (
            "this is UTF-16 or UTF-32: save the file as UTF-8 (`iconv -f UTF-16 -t UTF-8`; in PowerShell "
            "`Out-File -Encoding utf8`, for `>` writes UTF-16)"
        )
        raise InvalidInputError([Problem(shown_as, 1, 1, message)])
    data = data.removeprefix(codecs.BOM_UTF8)  # here, for the codec that does so counts without it afterwards
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8: save the file as UTF-8"
        raise InvalidInputError([Problem(shown_as, line, column, message)]) from None


def read_named_file(path: Path, shown_as: str) -> bytes:
    """Return the content of a file that a user names.

    Raises:
        InvalidInputError: it is a device, a pipe or a socket.
        OSError: there is nothing, or it cannot be read.
    """
    try:
        return read_file(path)
    except SpecialFileError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, str(error.strerror))]) from None


def read_text_file(path: Path, shown_as: str) -> str:
    """Read a file.

    Raises:
        InvalidInputError: it cannot be read, or is not UTF-8.
    """
    try:
        data = read_named_file(path, shown_as)
    except FileNotFoundError:
        raise InvalidInputError([Problem(shown_as, 0, 0, "no such file")]) from None
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    return decode_text(data, shown_as)


def read_csv_rows(path: Path, shown_as: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the line that it begins in.

    Raises:
        InvalidInputError: the file cannot be read or is no CSV.
    """
    text = io.StringIO(read_text_file(path, shown_as), newline="")
    reader, line = csv.reader(text, delimiter=delimiter), 1
    try:
        for row in reader:
            if any(row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInputError([Problem(shown_as, reader.line_num, 1, f"is no CSV: {error}")]) from None
