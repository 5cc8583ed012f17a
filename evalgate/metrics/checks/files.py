"""Check the files that an agent should or must not have written."""

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalgate.config.schema.checks import FileRule
from evalgate.metrics.checks.texts import TextCondition
from evalgate.metrics.checks.transcript import NoEvidenceError, Transcript
from evalgate.system.globs import find_matches
from evalgate.system.inner_files import read_inner_file

_LARGEST = 10 * 1024 * 1024
_CLOCK_STEP_S = 0.05
"""Most seconds by which a file's modification time precedes its writing.

Kernels do not read the clock for it, but use the time of their last tick.
"""


class FilesCondition:
    """The conditions under the key `files` of a check.

    A file counts only if it was written after the evaluation began.
    """

    def __init__(
        self, rules: Mapping[str, FileRule], folder: Path, since: float, *, is_recording: bool = False
    ) -> None:
        """Store the rules, and remember matching files that an earlier evaluation wrote just before `since`.

        A file counts as new if its modification time is after `since`, or at most `_CLOCK_STEP_S` seconds
        before: the system may record a time that is this much too early. Matching files that already have
        such a time now are from an earlier evaluation. They count only once they are changed.

        Args:
            rules: Conditions on files, by glob of their paths below `folder`. `{case}` in a glob stands for
                the id of the case.
            folder: Folder that the agent works in.
            since: Start of the evaluation, in seconds since the epoch. Files of earlier evaluations do not
                count.
            is_recording: True if the agent is a recording, which writes no files.
        """
        self._is_recording = is_recording
        self._rules = [(path, rule, TextCondition(rule)) for path, rule in rules.items()]
        self._folder = folder
        self._since = since - _CLOCK_STEP_S
        # An earlier evaluation in this process may have written files within the step before `since`.
        found = (each for path in rules for each in self._find_files(path.replace("{case}", "*"), False))
        self._leftovers = {
            each: sign for each in found if (sign := _sign(each)) and self._since <= sign[0] / 1e9 <= since
        }

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each missing or forbidden file, and for each fault in the content of a file.

        Raises:
            NoEvidenceError: the run is recorded, and writes no files.
        """
        if self._is_recording or transcript.case.recorded is not None:
            raise NoEvidenceError("a recorded run writes no files")
        for path, rule, condition in self._rules:
            name = path.replace("{case}", glob.escape(transcript.case.eval_id))
            found = self._find_files(name, path != name)
            new = [each for each in found if self._is_new(each)]
            if not rule.exists:
                yield from (f"file `{self._format(each)}`: expected no such file" for each in new)
            elif not new:
                old = ", found only one from before this run" if found else ""
                yield f"file `{name}`: expected to be written{old}"
            for each in new if rule.exists else ():
                for fault in _find_content_faults(each, self._folder, condition):
                    yield f"file `{self._format(each)}` {fault}"

    def _is_new(self, path: Path) -> bool:
        sign = _sign(path)
        return sign is not None and sign[0] / 1e9 >= self._since and self._leftovers.get(path) != sign

    def _find_files(self, pattern: str, is_filled_in: bool) -> list[Path]:
        """Return the matching files below the folder, sorted; links are followed unless they lead outside.

        `is_filled_in` is True if the pattern contains the id of a case. Then a pattern with `..` matches
        nothing, so that an id such as `../other` cannot select files elsewhere.
        """
        root = self._folder.resolve()
        if is_filled_in and ".." in Path(pattern).parts:
            return []
        # Not `Path.glob`, which raises for some patterns: the id of a case in the pattern may be any text.
        paths = (self._folder / each for each in find_matches(pattern, self._folder, within=root))
        return sorted(each for each in paths if each.is_file() and each.resolve().is_relative_to(root))

    def _format(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


def _sign(path: Path) -> tuple[int, int, int] | None:
    """Return (modification time in ns, inode, size), which is different for each version of a file.

    Return None if there is no file.
    """
    try:
        status = path.stat()
    except OSError:  # it was removed, or replaced by a link to itself
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _find_content_faults(path: Path, folder: Path, condition: TextCondition) -> Iterator[str]:
    try:
        if (size := path.stat().st_size) > _LARGEST:
            yield f"should have at most {_LARGEST:,} bytes, found {size:,}"
            return
        text = read_inner_file(path, folder).decode()
    except UnicodeDecodeError:
        yield "should be UTF-8 text, found other bytes"
        return
    except OSError as error:
        yield f"cannot be read: {error.strerror}"
        return
    yield from condition.find_faults(text)
