"""Reduce GitHub's OpenAPI description to the operations of the tests: `python -m tests.github.cut SOURCE > TARGET`.

SOURCE is `api.github.com.json` of github/rest-api-description, or an earlier TARGET. Descriptions, examples and unused
operations are removed. Everything else is unchanged.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

OPERATIONS = {
    "/repos/{owner}/{repo}": ("get",),
    "/repos/{owner}/{repo}/actions/artifacts": ("get",),
    "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}": ("get",),
    "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts": ("get",),
    "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun": ("post",),
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs": ("get",),
    "/repos/{owner}/{repo}/check-runs": ("post",),
    "/repos/{owner}/{repo}/check-runs/{check_run_id}": ("get", "patch"),
    "/repos/{owner}/{repo}/collaborators/{username}/permission": ("get",),
    "/repos/{owner}/{repo}/commits/{commit_sha}/pulls": ("get",),
    "/repos/{owner}/{repo}/commits/{ref}/check-runs": ("get",),
    "/repos/{owner}/{repo}/contents/{path}": ("get", "put"),
    "/repos/{owner}/{repo}/git/blobs": ("post",),
    "/repos/{owner}/{repo}/git/commits": ("post",),
    "/repos/{owner}/{repo}/git/commits/{commit_sha}": ("get",),
    "/repos/{owner}/{repo}/git/ref/{ref}": ("get",),
    "/repos/{owner}/{repo}/git/refs": ("post",),
    "/repos/{owner}/{repo}/git/refs/{ref}": ("patch",),
    "/repos/{owner}/{repo}/git/trees": ("post",),
    "/repos/{owner}/{repo}/issues/comments/{comment_id}": ("get", "patch", "delete"),
    "/repos/{owner}/{repo}/issues/{issue_number}/comments": ("get", "post"),
    "/repos/{owner}/{repo}/pulls/{pull_number}": ("get",),
}
_TELLING = {"description", "summary", "example", "examples", "externalDocs", "tags", "title", "operationId"}
_METHODS = {"get", "put", "post", "patch", "delete", "head", "options", "trace"}


def cut(source: dict[str, Any], operations: Mapping[str, tuple[str, ...]] = OPERATIONS) -> dict[str, Any]:
    """Return the description of `operations`, with the components that they refer to."""
    paths = {
        path: _bare({name: part for name, part in source["paths"][path].items() if _kept(name, methods)})
        for path, methods in operations.items()
    }
    return {
        "openapi": source["openapi"],
        "info": {name: source["info"][name] for name in ("title", "version", "license")},
        "paths": paths,
        "components": _components(source["components"], paths),
    }


def written(description: dict[str, Any]) -> str:
    """Return the description as the text of the committed file."""
    return json.dumps(description, separators=(",", ":"), sort_keys=True) + "\n"


def _kept(name: str, methods: tuple[str, ...]) -> bool:
    return name in methods or name not in _METHODS


def _bare(node: Any, *, names: bool = False) -> Any:
    """Return a node without texts for readers. `names` is True if the keys are names of properties.

    A property may be called `description`, so such keys are kept.
    """
    if isinstance(node, dict):
        return {
            key: _bare(value, names=key == "properties" and not names)
            for key, value in node.items()
            if names or not (key in _TELLING or key.startswith("x-"))
        }
    return [_bare(item) for item in node] if isinstance(node, list) else node


def _components(source: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = list(_references(paths))
    while todo:
        kind, name = todo.pop().removeprefix("#/components/").split("/", 1)
        if name not in found.setdefault(kind, {}) and kind != "examples":
            found[kind][name] = _bare(source[kind][name])
            todo += _references(found[kind][name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _references(item)


if __name__ == "__main__":
    sys.stdout.write(written(cut(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
