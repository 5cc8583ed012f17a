"""Changes of the quarantine file."""

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Quarantine
from evalgate.gating.quarantine_edits import find_quarantine, set_quarantine

_FILE = """# Cases that may fail
- case: late   # since Monday
  owner: billing
  reason: "the bank's test system is down"
  expires: 2026-12-24

# the next one
- case: "other*"
  owner: me
  reason: x
  expires: 2026-12-31
"""


def test_an_entry_is_added_changed_and_removed_and_all_other_text_stays() -> None:
    new = Quarantine("ops", 'said "no": # twice', "2027-01-31")
    added = set_quarantine(_FILE, "short", new, "q.yaml")
    assert added.startswith(_FILE)
    assert find_quarantine(added, "short", "q.yaml") == new
    assert set_quarantine(added, "short", None, "q.yaml") == _FILE

    changed = set_quarantine(_FILE, "late", new, "q.yaml")
    assert find_quarantine(changed, "late", "q.yaml") == new
    assert changed.partition("\n\n")[2] == _FILE.partition("\n\n")[2]
    assert changed.startswith("# Cases that may fail\n- case:")
    removed = set_quarantine(_FILE, "late", None, "q.yaml")
    assert find_quarantine(removed, "late", "q.yaml") is None
    assert "# the next one" in removed


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[]\n"])
def test_the_first_entry_is_written(text: str) -> None:
    found = set_quarantine(text, "a", Quarantine("me", "why", "2026-12-31"), "q.yaml")
    assert found.endswith('- case: "a"\n  owner: "me"\n  reason: "why"\n  expires: 2026-12-31\n')
    assert find_quarantine(found, "a", "q.yaml") == Quarantine("me", "why", "2026-12-31")


@pytest.mark.parametrize(
    ("text", "quarantine", "sentence"),
    [
        ("", Quarantine("", "why", "2026-12-31"), "needs `owner`"),
        ("", Quarantine("me", " ", "2026-12-31"), "needs `reason`"),
        ("", Quarantine("me", "why", "soon"), "as 2026-12-31"),
        (
            "[{case: a, owner: b, reason: c, expires: 2026-12-31}]",
            Quarantine("me", "why", "2026-12-31"),
            "list",
        ),
    ],
)
def test_an_incomplete_entry_is_refused(text: str, quarantine: Quarantine, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        set_quarantine(text, "b", quarantine, "q.yaml")


@pytest.mark.parametrize(
    "entry",
    [
        "- case: a\n  owner: me\n  expires: 2026-12-31\n  reason: |\n    long\n    - text\n",
        "- case: a\n  owner: me\n  expires: 2026-12-31\n  reason: >-\n    long\n\n    text\n",
        "-\n  case: a\n  owner: me\n  reason: x\n  expires: 2026-12-31\n",
        "-  # the - first\n  case: a\n  owner: me\n  reason: x\n  expires: 2026-12-31   # soon\n",
        "- {case: a, owner: me, reason: x,\n   expires: 2026-12-31\n  }\n",
        '- case: a\n  owner: me\n  expires: 2026-12-31\n  reason: "two\n    lines"\n',
    ],
)
@pytest.mark.parametrize("pad", ["", "  "])
def test_the_lines_of_one_entry_are_replaced_whatever_its_layout(entry: str, pad: str) -> None:
    entry = "".join(f"{pad}{line}" if line.strip() else line for line in entry.splitlines(keepends=True))
    above = f"# first\n{pad}- {{case: z, owner: me, reason: x, expires: 2026-12-31}}\n"
    below = f"{pad}- case: b\n{pad}  owner: me\n{pad}  reason: x\n{pad}  expires: 2026-12-31\n"
    written = ["- case: a", "  owner: me", "  reason: new", "  expires: 2027-01-31"]
    quoted = [line.replace(": ", ': "', 1) + '"' for line in written[:3]] + written[3:]
    new = "".join(f"{pad}{line}\n" for line in quoted)
    quarantine = Quarantine("me", "new", "2027-01-31")
    for before, after in (("", ""), ("", below), (above, ""), (above, below)):
        text = before + entry + after
        assert set_quarantine(text, "a", None, "q.yaml") == before + after
        assert set_quarantine(text, "a", quarantine, "q.yaml") == before + new + after
