"""Build CI annotations: messages about failing cases, each on the line of its case in the eval-set file."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from evalgate.ci.check_runs import MOST_ANNOTATIONS_A_REQUEST
from evalgate.ci.posting import Annotation
from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import to_one_line
from evalgate.core.types import Record
from evalgate.gating.failure_groups import list_failure_groups
from evalgate.reporting.findings import Finding, describe_faults, list_findings, resolve_from_root


def list_annotated_findings(record: Record) -> list[Finding]:
    """Return the failing cases that count for the gate, in an order that shows different failures first.

    A failure group holds the cases that failed in the same way. The first case of every group comes first,
    then the second case of every group, and so on. Cases without a group come last.
    """
    findings = {finding.case.key: finding for finding in list_findings(record)}
    rounds = zip_longest(*[group.cases for group in list_failure_groups(record)])
    grouped = [findings.pop(key) for each in rounds for key in each if key in findings]
    return [*grouped, *findings.values()]


def build_annotations(findings: Iterable[Finding], folder: str = "") -> Iterator[Annotation]:
    """Yield an annotation for each finding, on the line of its case in the eval set.

    Paths in the findings are relative to `folder`, which is relative to the repository's root.
    """
    for finding in findings:
        message = "\n".join(to_one_line(fault, 500) for fault in describe_faults(finding.case)) or "failed"
        path = resolve_from_root(folder, finding.case.path)
        yield Annotation(path, finding.case.line, message, finding.name)


def build_check_annotations(record: Record, folder: str = "") -> tuple[Annotation, ...]:
    """Return an annotation for each failing case, for a check run on GitHub.

    GitHub accepts at most `MOST_ANNOTATIONS_A_REQUEST` annotations. If there are more failing cases, the last
    annotation states the number of the cases without one.
    Paths in the record are relative to `folder`, which is relative to the repository's root.
    """
    findings = list_annotated_findings(record)
    if len(findings) <= MOST_ANNOTATIONS_A_REQUEST:
        return tuple(build_annotations(findings, folder))
    *shown, last = build_annotations(findings[:MOST_ANNOTATIONS_A_REQUEST], folder)
    rest = pluralize(len(findings) - len(shown), "more failing case")
    return (*shown, Annotation(last.path, last.line, f"{rest}: see the summary.", "evalgate"))
