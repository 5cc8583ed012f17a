"""The matrix (a comparison of variants of an agent) as a page.

The page is one file that loads nothing and has no script.
"""

from collections.abc import Sequence
from urllib.parse import quote

from evalgate.core.frozen import frozen
from evalgate.gating.variant_matrix import VariantMatrix
from evalgate.reporting.html.environment import TEMPLATES, render_html
from evalgate.reporting.html.reporter import compute_csp_hash
from evalgate.reporting.matrix.sentences import (
    NO_GATE,
    MatrixTable,
    build_headline,
    build_table,
    describe_comparison,
    describe_outcome,
    format_counts,
)


@frozen
class _Part:
    """A part of the page: the first measurement, or its confirmation by fresh runs."""

    title: str
    table: MatrixTable
    rows: Sequence[tuple[Sequence[str], str]]
    """(cells, address of the variant's page) of each row."""
    reference: str
    comparisons: Sequence[tuple[str, Sequence[str]]]


def render_page(matrix: VariantMatrix) -> str:
    """Return the page as HTML, with a link to each variant's `report.html`."""
    style = (TEMPLATES / "page.css").read_text("utf-8") + (TEMPLATES / "matrix.css").read_text("utf-8")
    names = [row.name for row in matrix.variants]
    parts = [_build_part("Variants", matrix)]
    if matrix.confirmation is not None:
        parts.append(_build_part("Confirmation with fresh runs", matrix.confirmation))
    return render_html(
        "matrix.html.j2",
        style=style,
        style_source=compute_csp_hash(style),
        headline=build_headline(matrix),
        facts=(f"{matrix.agent.kind} {matrix.agent.what}", f"{matrix.duration_s:,.0f} s", NO_GATE),
        outcome=list(describe_outcome(matrix)),
        notices=matrix.notices,
        parts=parts,
        names=names,
        cases=[
            (f"{case.eval_set_id}/{case.eval_id}", [format_counts(case.passed[name]) for name in names])
            for case in matrix.cases
        ],
        about=(f"evalgate {matrix.evalgate_version}", f"measured {matrix.created_at}"),
    )


def _build_part(title: str, matrix: VariantMatrix) -> _Part:
    table = build_table(matrix)
    pages = [quote(row.results.removesuffix("results.json") + "report.html") for row in matrix.variants]
    comparisons = [(each.variant, list(describe_comparison(each))) for each in matrix.comparisons]
    return _Part(title, table, list(zip(table.rows, pages, strict=True)), matrix.reference.name, comparisons)
