"""Globs of the files that may change what is installed for an agent, or how a job runs it."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

PACKAGE_FILES = (
    "**/requirements*.txt",
    "**/requirements/**",
    "**/constraints*.txt",
    "**/pyproject.toml",
    "**/setup.py",
    "**/setup.cfg",
    "**/Pipfile",
    "**/environment*.y*ml",
    "**/package.json",
    "**/go.mod",
    "**/go.sum",
    "**/Cargo.toml",
    "**/*.lock",
    "**/*.lock.*",
    "**/*.lock?",
    "**/*.lockfile",
    "**/*-lock.*",
    "**/npm-shrinkwrap.json",
    "**/pnpm-workspace.yaml",
    "**/.npmrc",
    "**/go.work",
    "**/pip.conf",
    "**/uv.toml",
    "**/sitecustomize.py",
    "**/*.pth",
)
"""Globs of files that decide which packages are installed for the agent."""

JOB_FILES = (
    "**/.nvmrc",
    "**/.node-version",
    "**/*.nix",
    "**/tox.ini",
    "**/Dockerfile*",
    "**/*.Dockerfile",
    "**/Containerfile*",
    "**/*compose*.y*ml",
    "**/action.y*ml",
    "**/.github/**",
    "**/.gitlab-ci.yml",
    "**/.gitlab/**",
    "**/azure-pipelines*.yml",
    "**/bitbucket-pipelines.yml",
    "**/.buildkite/**",
    "**/.circleci/**",
    "**/Jenkinsfile",
    "**/.env*",
    "**/.python-version",
    "**/.tool-versions",
    "**/Makefile",
    "**/GNUmakefile",
    "**/justfile",
    "**/Taskfile*.y*ml",
    "**/mise.toml",
)
"""Globs of files that decide with which environment variables, programs and versions a job runs the agent."""

ENVIRONMENT_FILES = (*PACKAGE_FILES, *JOB_FILES, "**/.gitmodules", "**/.gitattributes", "**/.gitignore")
"""Globs of all files that decide what is installed for the agent, or how a job runs it."""


def matches_pattern(path: str, pattern: str, *, ignore_case: bool = False) -> bool:
    """Return True if the glob `pattern` matches `path`; both have slashes between their parts.

    `*`, `?` and `[…]` match within one part. `**` matches any number of folders, and at the end of the
    pattern everything below them. None of these wildcards matches `..`. If the last part of the pattern has
    no wildcard, the pattern matches the file of this name, and everything below a folder of this name.
    With `ignore_case`, upper and lower case are equal.
    """
    if ignore_case:
        path, pattern = path.casefold(), pattern.casefold()
    return _match_parts(path.split("/"), pattern.rstrip("/").split("/"))


def _match_parts(path: Sequence[str], pattern: Sequence[str], last: str = "") -> bool:
    if not pattern:
        return not path or not set(last) & set("*?[")
    if pattern[0] == "**":
        if len(pattern) == 1:
            return ".." not in path
        below = next((at for at, part in enumerate(path) if part == ".."), len(path))
        return any(_match_parts(path[at:], pattern[1:]) for at in range(below + 1))
    if not path or (path[0] == "..") != (pattern[0] == ".."):
        return False
    return fnmatchcase(path[0], pattern[0]) and _match_parts(path[1:], pattern[1:], pattern[0])
