"""Find the quick actions in a note, which GitLab executes with the permissions of the note's author.

Order and limits of the exceptions are those of GitLab's `Gitlab::QuickActions::Extractor`. For example, a block of
code ends at the first line of exactly three backticks, even if it does not end there in Markdown.
"""

import re

NAMES = (
    "approve",
    "assign",
    "close",
    "label",
    "merge",
    "rebase",
    "reopen",
    "shrug",
    "target_branch",
    "title",
)

_EXCEPTIONS = (
    r"^```.+?\n```$",
    r"^.*`\n*.+?\n*`$",
    r"^<[^>]+?>\n.+?\n</[^>]+?>$",
    r"^>>>.+?\n>>>$",
)
_ACTION = rf"^/(?P<name>{'|'.join(NAMES)})(?:[ ](?P<argument>[^\n]*))?(?:\s*\n|$)"
_EITHER = re.compile(
    "|".join((*(f"(?:{each})" for each in _EXCEPTIONS), _ACTION)), re.MULTILINE | re.DOTALL | re.IGNORECASE
)


def quick_actions(body: str) -> list[str]:
    """Return the names of the quick actions that GitLab would execute for a note."""
    if not re.search("^/", body, re.MULTILINE):
        return []
    return [found["name"].lower() for found in _EITHER.finditer(body.replace("\r", "")) if found["name"]]
