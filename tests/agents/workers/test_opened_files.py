"""Files that an agent's processes opened, by eval set."""

import pytest

from evalgate.agents.workers.opened_files import OpenedFiles, parse_opened_files
from evalgate.agents.workers.protocol import WorkerProtocolError


def test_the_files_of_all_processes_count_and_one_gap_leaves_the_eval_set_out() -> None:
    files = OpenedFiles()
    files.add_session("refunds", {"b", "a"})
    files.add_session("search", {"a"})
    files.add_session("refunds", {"c"})
    assert files.by_eval_set == {"refunds": ("a", "b", "c"), "search": ("a",)}
    files.add_session("search", None)
    files.add_session("search", {"d"})
    assert files.by_eval_set == {"refunds": ("a", "b", "c")}
    assert files.incomplete == ("search",)


@pytest.mark.parametrize("paths", [None, "a", [1], {"a": 1}])
def test_a_message_without_a_list_of_paths_breaks_the_protocol(paths: object) -> None:
    with pytest.raises(WorkerProtocolError, match="without a list of paths"):
        parse_opened_files({"type": "files", "paths": paths})
