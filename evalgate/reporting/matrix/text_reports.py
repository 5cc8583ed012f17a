"""The matrix (a comparison of variants of an agent) as text for a terminal, as Markdown and as JUnit."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import to_log_line, to_md_code, to_md_text, to_one_line, to_xml_text
from evalgate.gating.variant_matrix import VariantMatrix
from evalgate.reporting.matrix.sentences import (
    NO_GATE,
    build_headline,
    build_table,
    describe_comparison,
    describe_outcome,
    format_counts,
    list_disagreements,
)

_MOST_CASES = 20
_LONGEST = 80


def render_terminal(matrix: VariantMatrix) -> str:
    """Return the matrix as plain text in aligned columns. The preferable variant is named at the end."""
    return "".join(f"{line}\n" for line in _iter_terminal_lines(matrix))


def _iter_terminal_lines(matrix: VariantMatrix) -> Iterator[str]:
    found = list_disagreements(matrix)
    if found:
        names = [row.name for row in matrix.variants]
        yield f"The variants differ in {pluralize(len(found), 'case')}:"
        rows = [
            (f"{case.eval_set_id}/{case.eval_id}", *(format_counts(case.passed[name]) for name in names))
            for case in found[:_MOST_CASES]
        ]
        yield from _align_columns([("case", *names), *rows])
        if len(found) > _MOST_CASES:
            yield f"  … and {len(found) - _MOST_CASES:,} more: see matrix.html"
        yield ""
    yield from _iter_measurement(matrix)
    for notice in matrix.notices:
        yield to_log_line(notice)
    if matrix.confirmation is not None:
        yield ""
        yield "Confirmation with fresh runs:"
        yield from _iter_measurement(matrix.confirmation)
    yield ""
    yield f"MATRIX  {build_headline(matrix)}"
    for sentence in describe_outcome(matrix):
        yield to_log_line(sentence, 1_000)
    yield NO_GATE


def _iter_measurement(matrix: VariantMatrix) -> Iterator[str]:
    table, reference = build_table(matrix), to_log_line(matrix.reference.name, _LONGEST)
    yield from _align_columns([table.header, *table.rows])
    for comparison in matrix.comparisons:
        yield f"{to_log_line(comparison.variant, _LONGEST)} compared with {reference}:"
        for sentence in describe_comparison(comparison):
            yield f"  {to_log_line(sentence, 1_000)}"


def _align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown = [[to_log_line(cell, _LONGEST) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for first, *others in shown:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([f"  {first.ljust(widths[0])}", *cells])


def render_markdown(matrix: VariantMatrix) -> str:
    """Return the matrix as GitHub-flavoured Markdown."""
    return "\n".join(_iter_markdown_lines(matrix)) + "\n"


def _iter_markdown_lines(matrix: VariantMatrix) -> Iterator[str]:
    yield f"### evalgate matrix: {build_headline(matrix)}"
    yield ""
    for sentence in describe_outcome(matrix):
        yield to_md_text(sentence, 1_000)
        yield ""
    yield from _iter_markdown_measurement(matrix)
    if matrix.confirmation is not None:
        yield "#### Confirmation with fresh runs"
        yield ""
        yield from _iter_markdown_measurement(matrix.confirmation)
    for notice in matrix.notices:
        yield f"> {to_md_text(notice, 1_000)}"
        yield ""
    found = list_disagreements(matrix)
    if found:
        names = [row.name for row in matrix.variants]
        yield f"<details><summary>The variants differ in {pluralize(len(found), 'case')}</summary>"
        yield ""
        yield from _iter_markdown_table(
            ("case", *names),
            [
                (f"{case.eval_set_id}/{case.eval_id}", *(format_counts(case.passed[name]) for name in names))
                for case in found[:_MOST_CASES]
            ],
        )
        if len(found) > _MOST_CASES:
            yield f"… and {len(found) - _MOST_CASES:,} more: see `matrix.html`"
            yield ""
        yield "</details>"
        yield ""
    yield f"<sub>{NO_GATE}</sub>"


def _iter_markdown_measurement(matrix: VariantMatrix) -> Iterator[str]:
    table = build_table(matrix)
    yield from _iter_markdown_table(table.header, table.rows)
    for comparison in matrix.comparisons:
        variant, reference = to_md_code(comparison.variant), to_md_code(matrix.reference.name)
        yield f"{variant} compared with {reference}:"
        yield ""
        for sentence in describe_comparison(comparison):
            yield f"- {to_md_text(sentence, 1_000)}"
        yield ""


def _iter_markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(to_md_text(cell) for cell in header)} |"
    yield f"|---|{'--:|' * (len(header) - 1)}"
    for first, *others in rows:
        yield f"| {' | '.join([to_md_code(first), *map(to_md_text, others)])} |"
    yield ""


def render_junit(matrix: VariantMatrix) -> str:
    """Return JUnit's XML with a test suite for each variant and a test for each case.

    A case that did not pass all its runs, or was not run, is skipped and not failed: a measurement must not
    fail a CI job.
    """
    root = ET.Element("testsuites")
    for row in matrix.variants:
        counts = [(case, case.passed[row.name]) for case in matrix.cases]
        skipped = sum(passed < runs or not runs for _, (passed, runs) in counts)
        attributes = {
            "name": to_xml_text(to_one_line(row.name)),
            "tests": str(len(counts)),
            "failures": "0",
            "errors": "0",
            "skipped": str(skipped),
            "time": "0.000",
            "timestamp": matrix.created_at,
        }
        suite = ET.SubElement(root, "testsuite", attributes)
        for case, (passed, runs) in counts:
            test = ET.SubElement(
                suite,
                "testcase",
                {
                    "name": to_xml_text(to_one_line(case.eval_id)),
                    "classname": to_xml_text(to_one_line(case.eval_set_id)),
                },
            )
            if passed < runs or not runs:
                message = f"{passed} of {pluralize(runs, 'run')} passed" if runs else "not run"
                ET.SubElement(test, "skipped", {"message": message})
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'
