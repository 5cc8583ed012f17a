"""Temporary files that a killed write left behind."""

import tempfile
from pathlib import Path

from evalgate.system.files import remove_temporaries


def test_only_those_of_the_file_are_removed(tmp_path: Path) -> None:
    for name in (".results.", ".results.json."):
        tempfile.mkstemp(prefix=name, suffix=".tmp", dir=tmp_path)
    remove_temporaries(tmp_path / "results")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".results.json.")
    remove_temporaries(tmp_path / "results.json")
    assert list(tmp_path.iterdir()) == []
