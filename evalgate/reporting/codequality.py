"""`gl-code-quality-report.json`: each failing case on its line of the eval set, for GitLab's merge requests.

GitLab shows what is in the report of a change and not in that of its target branch, and knows an issue by its
fingerprint alone: one stands for a case and what is wrong with it, whatever the scores are today.
https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

import hashlib
import json
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.core.types import CaseResult, Record
from evalgate.reporting.findings import Finding, describe_faults, list_findings, resolve_from_root

Severity: TypeAlias = Literal["major", "critical", "blocker"]

_LONGEST_TEXT = 500
_LONGEST_PATH = 1000


@frozen
class CodeQualityReport:
    """GitLab's Code Quality report: a list of what is wrong, empty when nothing is."""

    folder: str = ""
    """Where paths in the record start, as the repository's root sees it."""

    file_name = "gl-code-quality-report.json"

    def prefix_paths(self, folder: str) -> "CodeQualityReport":
        """See `evalgate.core.protocols.PrefixesPaths`."""
        return replace(self, folder=folder)

    def render(self, record: Record) -> str:
        """A JSON list, a line for each metric that a case failed and for each case without an answer."""
        issues = [
            json.dumps(issue) for finding in list_findings(record) for issue in self._build_issues(finding)
        ]
        return "\n".join(["[", ",\n".join(issues), "]\n"]) if issues else "[]\n"

    def _build_issues(self, finding: Finding) -> Iterator[dict[str, object]]:
        case = finding.case
        for name, fault in _list_named_faults(case):
            yield {
                "description": to_log_line(f"{finding.name}: {fault}", _LONGEST_TEXT),
                "check_name": to_log_line(f"evalgate/{name}"),
                "fingerprint": _compute_fingerprint(case.path, case.eval_set_id, case.eval_id, name),
                "severity": _classify_severity(finding),
                "location": {"path": self._normalize_path(case.path), "lines": {"begin": max(1, case.line)}},
            }

    def _normalize_path(self, path: str) -> str:
        """Relative to the repository, or what GitLab could still find there."""
        inside = resolve_from_root(self.folder, path)
        parts = [
            part for part in to_log_line(inside, _LONGEST_PATH).split("/") if part not in {"", ".", ".."}
        ]
        return posixpath.join(*parts) if parts else "unknown"


def _list_named_faults(case: CaseResult) -> Iterator[tuple[str, str]]:
    """What stands against the case, under the name of the metric or of how the agent ended."""
    unanswered = [run.outcome for run in case.runs if run.outcome != "answered"][:1]
    metrics = [metric.name for metric in case.metrics if metric.status in {"failed", "errored"}]
    found = list(zip(unanswered or metrics, describe_faults(case), strict=True))
    yield from found or [(case.status, f"the case {case.status}")]


def _compute_fingerprint(*parts: str) -> str:
    # JSON keeps the parts apart whatever they hold, lone surrogates included.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _classify_severity(finding: Finding) -> Severity:
    if finding.is_new:
        return "blocker"
    return "critical" if finding.case.status == "errored" else "major"
