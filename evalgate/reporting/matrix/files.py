"""Write the reports of a matrix (a comparison of variants of an agent), and the record of each variant."""

import json
from collections.abc import Sequence
from typing import Any

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.sanitize import to_log_json
from evalgate.core.types import Record
from evalgate.gating.variant_matrix import VariantMatrix
from evalgate.reporting.matrix.page import render_page
from evalgate.reporting.matrix.text_reports import render_junit, render_markdown
from evalgate.reporting.report_files import ReportWriteError, write_reports
from evalgate.system.files import GuardedFolder, replace_nested_file
from evalgate.system.workspace import Workspace


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


def write_variants(records: Sequence[tuple[str, Record]], out: GuardedFolder, workspace: Workspace) -> None:
    """Write `results.json` and `report.html` for each variant.

    `records` are pairs (folder of the variant relative to `out`, record of the variant).

    Raises:
        InvalidInputError: a file cannot be written.
    """
    names = {"results.json", "report.html"}
    reporters = [each for each in plugin_registry.get_reporters({"html"}) if each.file_name in names]
    for name, record in records:
        try:
            write_reports(record, out.build_subfolder(name), reporters, owner=workspace.owner)
        except ReportWriteError as error:
            raise InvalidInputError(str(error)) from None
