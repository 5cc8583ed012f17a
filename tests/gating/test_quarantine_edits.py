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
