"""Write the reports of a matrix (a comparison of variants of an agent), and the record of each variant."""

import contextlib
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.sanitize import to_log_json
from evalgate.core.types import Record
from evalgate.gating.variant_matrix import VariantMatrix
from evalgate.reporting.matrix.page import render_page
from evalgate.reporting.matrix.text_reports import render_junit, render_markdown
from evalgate.reporting.report_files import ReportWriteError, remove_reports, write_reports
from evalgate.system.files import GuardedFolder, replace_nested_file
from evalgate.system.inner_files import read_inner_file
from evalgate.system.workspace import Workspace

_VARIANT_FILES = ("results.json", "report.html")
"""The reports of one variant."""
_RESULTS_OF_VARIANT = re.compile(r"variants/([0-9]+-[^/\0]+)/results\.json")
"""Pattern of the path of a variant's results in `matrix.json`; the group is the variant's folder."""


def dump_matrix(matrix: VariantMatrix) -> str:
    """Return the matrix as JSON, with every key of its schema."""
    from pydantic import TypeAdapter

    value = TypeAdapter(VariantMatrix).dump_python(matrix, mode="json")
    return to_log_json(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


RENDERERS = {
    "matrix.json": dump_matrix,
    "matrix.md": render_markdown,
    "matrix.html": render_page,
    "matrix-junit.xml": render_junit,
}
"""The function that renders each file of a matrix, by file name."""


def build_matrix_schema() -> dict[str, Any]:
    """Return the JSON Schema of `matrix.json`."""
    from pydantic import TypeAdapter

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TypeAdapter(VariantMatrix).json_schema(mode="serialization"),
        "title": "evalgate matrix.json",
    }


def write_matrix(matrix: VariantMatrix, out: GuardedFolder, workspace: Workspace) -> None:
    """Write all reports of the matrix (JSON, Markdown, HTML, JUnit) to the folder `out`.

    Raises:
        InvalidInputError: a file cannot be written.
    """
    try:
        with out.open_folder(workspace.owner) as folder:
            for name, render in RENDERERS.items():
                replace_nested_file(folder, name, (render(matrix),), workspace.owner)
    except OSError as error:
        raise InvalidInputError(f"{out.path}: cannot be written: {error.strerror or error}") from None


def remove_matrix(out: GuardedFolder) -> None:
    """Remove the reports of an earlier matrix from the folder `out`, also those of its variants.

    Only variants that `matrix.json` lists are removed. A variant's folder is removed with its reports if
    nothing else is in it. It stays with its other files, such as the journal of an interrupted matrix, which
    `--resume` needs. Files and folders that cannot be removed stay.
    """
    names = _list_variant_folders(out)
    remove_reports(out, RENDERERS)
    variants = out.build_subfolder("variants")
    for name in names:
        _remove_variant(variants, name, "confirmation")
        _remove_variant(variants, name)


def _list_variant_folders(out: GuardedFolder) -> list[str]:
    """Return the names of the variants' folders by the `matrix.json` in `out`; [] without a valid one."""
    try:
        # The agent runs already, and may have put a pipe or a link there.
        listed = json.loads(read_inner_file(out.path / "matrix.json", out.path))["variants"]
        found = [_RESULTS_OF_VARIANT.fullmatch(each["results"]) for each in listed]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [match[1] for match in found if match]


def _remove_variant(variants: GuardedFolder, *names: str) -> None:
    """Remove the reports in the subfolder at the path `names`, and the subfolder if it is empty then.

    A folder without `results.json` stays: it is no folder of a variant.
    """
    above = variants.build_subfolder("/".join(names[:-1])) if names[1:] else variants
    folder = above.build_subfolder(names[-1])
    if (folder.path / "results.json").is_file():  # without this check, the folder would be created
        remove_reports(folder, _VARIANT_FILES)
        with contextlib.suppress(OSError), above.open_folder() as descriptor:
            os.rmdir(names[-1], dir_fd=descriptor)


def write_variants(records: Sequence[tuple[str, Record]], out: GuardedFolder, workspace: Workspace) -> None:
    """Write `results.json` and `report.html` for each variant.

    `records` are pairs (folder of the variant relative to `out`, record of the variant).

    Raises:
        InvalidInputError: a file cannot be written.
    """
    reporters = [each for each in plugin_registry.get_reporters({"html"}) if each.file_name in _VARIANT_FILES]
    for name, record in records:
        try:
            write_reports(record, out.build_subfolder(name), reporters, owner=workspace.owner)
        except ReportWriteError as error:
            raise InvalidInputError(str(error)) from None
