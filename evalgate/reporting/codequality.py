"""Render `gl-code-quality-report.json`: each failing case on its line of the eval set, for GitLab.

A merge request shows the issues of its own report that are not in the report of the target branch. GitLab
recognises an issue by its fingerprint alone. So the fingerprint depends on the case and on the failed metric
(or the outcome of a run without an answer), and not on the scores of a run.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

import hashlib
import json
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.protocols import ReportContext
from evalgate.core.sanitize import to_log_line
from evalgate.core.types import CaseResult, Record
from evalgate.reporting.findings import Finding, describe_faults, list_findings, resolve_from_root

Severity: TypeAlias = Literal["major", "critical", "blocker"]

_LONGEST_TEXT = 500
_LONGEST_PATH = 1000


@frozen
class CodeQualityReport:
    """GitLab's Code Quality report: a JSON list of issues, empty if no case failed."""

    folder: str = ""
    """Path, from the repository's root, of the folder to which paths in the record are relative."""

    file_name = "gl-code-quality-report.json"

    def with_context(self, context: ReportContext) -> "CodeQualityReport":
        """Return a copy that renders paths relative to the repository's root: below `context.folder`."""
        return replace(self, folder=context.folder)

    def render(self, record: Record) -> str:
        """Return a JSON list of issues about the gating cases that failed or errored.

        A case has one issue for each gating metric that failed or errored. If a run of the case has no
        answer, the case has only one issue, about the first such run. A case without any known reason also
        has one issue, about its status.
        """
        issues = [
            json.dumps(issue) for finding in list_findings(record) for issue in self._build_issues(finding)
        ]
        # One issue a line, so that a difference of two reports can be read.
        return "\n".join(["[", ",\n".join(issues), "]\n"]) if issues else "[]\n"

    def _build_issues(self, finding: Finding) -> Iterator[dict[str, object]]:
        case = finding.case
        severity: Severity = "critical" if case.status == "errored" else "major"
        for name, fault in _list_named_faults(case):
            # JSON separates the parts whatever they hold, and escapes lone surrogates for UTF-8.
            identity = json.dumps((case.path, case.eval_set_id, case.eval_id, name))
            yield {
                "description": to_log_line(f"{finding.name}: {fault}", _LONGEST_TEXT),
                "check_name": to_log_line(f"evalgate/{name}"),
                "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
                "severity": "blocker" if finding.is_new else severity,
                "location": {
                    "path": _normalize_path(self.folder, case.path),
                    "lines": {"begin": max(1, case.line)},
                },
            }


@lru_cache(maxsize=256)
def _normalize_path(folder: str, path: str) -> str:
    """Return `path` as a path from the repository's root, without the parts `.` and `..`.

    `path` is relative to `folder`, which is relative to the root. Return "unknown" if no part is left.
    """
    inside = resolve_from_root(folder, path)
    parts = [part for part in to_log_line(inside, _LONGEST_PATH).split("/") if part not in {"", ".", ".."}]
    return posixpath.join(*parts) if parts else "unknown"


def _list_named_faults(case: CaseResult) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) for each reason why a case failed.

    If a run has no answer, the only name is the outcome of the first such run. Otherwise the names are those
    of the failed metrics. If no reason is known, the only name is the status of the case.
    """
    unanswered = [run.outcome for run in case.runs if run.outcome != "answered"][:1]
    metrics = [metric.name for metric in case.metrics if metric.gating_status in {"failed", "errored"}]
    faults = list(zip(unanswered or metrics, describe_faults(case), strict=True))
    yield from faults or [(case.status, f"the case {case.status}")]
