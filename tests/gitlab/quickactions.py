"""What GitLab takes for a quick action in a note, and executes as whoever wrote the note.

The order and the limits of each exception are those of GitLab's `Gitlab::QuickActions::Extractor`: what begins as
a block of code ends at the first line that is exactly three backticks, whatever Markdown thinks of it.
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
    """The names of the actions that a note would set off."""
    if not re.search("^/", body, re.MULTILINE):
        return []
    return [found["name"].lower() for found in _EITHER.finditer(body.replace("\r", "")) if found["name"]]
