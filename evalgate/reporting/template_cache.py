"""A cache of compiled templates. Compiling the templates of a run takes 0.1 s, loading them 0.005 s."""

import contextlib
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path
from pickle import UnpicklingError

from jinja2.bccache import Bucket, BytecodeCache


class TemplateCache(BytecodeCache):
    """Cache of compiled templates in files next to Python's compiled modules (`__pycache__`).

    If Python writes no compiled modules (`-B`, `PYTHONDONTWRITEBYTECODE`), or the folder cannot be written,
    each process compiles the templates anew. Jinja ignores a file that was compiled from another text or by
    another version of Python or Jinja. `format_name` is part of the file names: Jinja environments with
    different settings need different names.
    """

    def __init__(self, folder: Path, format_name: str) -> None:
        self._prefix = str(folder / format_name)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a compiled template; do nothing if there is no readable file."""
        path = self._find_file(bucket)
        with contextlib.suppress(OSError, EOFError, UnpicklingError), path.open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template, if possible. Other processes see the complete file or no file."""
        if sys.dont_write_bytecode:
            return
        file = self._find_file(bucket)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(bucket.bytecode_to_string())
            temporary.replace(file)

    def _find_file(self, bucket: Bucket) -> Path:
        return Path(cache_from_source(f"{self._prefix}-{bucket.key}"))
