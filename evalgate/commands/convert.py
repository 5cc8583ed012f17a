"""`evalgate convert`: an eval set of one ecosystem as a file of another."""

from dataclasses import dataclass
from pathlib import Path

from evalgate import plugins
from evalgate.errors import InvalidInput, Problem
from evalgate.load import load_eval_sets
from evalgate.numbers import counted
from evalgate.protocols import EvalFormat, TellsUnread
from evalgate.reading.jsontext import read_json
from evalgate.system.files import atomic_write
from evalgate.system.workspace import open_workspace


@dataclass(frozen=True, slots=True)
class Converted:
    """A conversion."""

    text: str
    """The new file."""
    lost: tuple[str, ...]
    """One sentence for each thing that could not be carried over, the kinds of one key together."""


def convert(source: str, *, to: str, folder: Path, out: str | None, format_name: str | None) -> Converted:
    """Read the eval set `source`, and write it as `to` to the file `out`, if one is named.

    Raises:
        InvalidInput: the source is wrong, or nothing writes that format.
    """
    workspace = open_workspace(folder)
    writer = plugins.writer(to)
    formats = plugins.formats()
    eval_sets = load_eval_sets([source], formats, base=workspace.folder, format_name=format_name)
    if len(eval_sets) != 1:
        raise InvalidInput(f"{source}: name one file; there are {counted(len(eval_sets), 'eval set')}")
    (eval_set,) = eval_sets
    written = writer.write(eval_set)
    if out is not None:
        try:
            atomic_write(workspace.folder / out, written.text, workspace.owner)
        except OSError as error:
            raise InvalidInput(f"{out}: cannot be written: {error.strerror}") from None
    reader = _reader(workspace.folder / eval_set.path, formats[format_name] if format_name else None)
    unread = _grouped(reader, workspace.folder / eval_set.path, eval_set.path)
    return Converted(written.text, (*unread, *(f"{eval_set.path}: {sentence}" for sentence in written.lost)))


def _reader(path: Path, forced: EvalFormat | None) -> EvalFormat:
    document = read_json(path, str(path))
    return forced or next(each for each in plugins.formats().values() if each.recognises(document))


def _grouped(reader: EvalFormat, path: Path, shown_as: str) -> list[str]:
    """One sentence for each key that the reader passes over, however often it stands in the file."""
    if not isinstance(reader, TellsUnread):
        return [f"{shown_as}: keys that evalgate does not read are lost; this format cannot list them"]
    document = read_json(path, shown_as)
    places: dict[str, list[tuple[int, int]]] = {}
    for location in reader.unread(document):
        places.setdefault(str(location[-1]), []).append(document.position(location))
    return [
        str(Problem(shown_as, *min(found), f"`{key}` is not carried over{_often(len(found))}"))
        for key, found in places.items()
    ]


def _often(times: int) -> str:
    return f" ({times:,} times)" if times > 1 else ""
