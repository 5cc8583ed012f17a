"""Pages run in threads, and share one object of each class."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.viewer.serving import create_viewer


class Service:
    """A service that takes its time to be created, and counts how often it is closed."""

    def __init__(self) -> None:
        time.sleep(0.05)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_pages_that_are_opened_at_once_share_a_service(tmp_path: Path) -> None:
    viewer = create_viewer(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(viewer.get_service, Service, Service) for _ in range(4)]
    first, *others = [each.result() for each in found]
    assert all(each is first for each in others)
    viewer.resources.close()
    assert first.closed == 1
