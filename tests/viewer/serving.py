"""Start viewers for tests, behind Starlette's test client or on a port for a browser."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.testclient import TestClient

from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record
from evalgate.viewer.app import create_app
from evalgate.viewer.records import RecordStore
from evalgate.viewer.security import Access
from evalgate.viewer.server import configure_server, open_socket
from evalgate.viewer.state import Viewer

TOKEN = "0123456789" * 4


def write_record(path: Path, record: Record) -> Path:
    """Write a record as a results.json, and create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_record(record), "utf-8")
    return path


def create_viewer(folder: Path, *named: str, port: int = 8123) -> Viewer:
    return Viewer(folder, RecordStore(folder, named), Access(port, TOKEN))


def open_client(viewer: Viewer, *, has_cookie: bool = True) -> TestClient:
    """Return a client that has opened the viewer's address. Its POST requests need the field `csrf`."""
    address = f"http://127.0.0.1:{viewer.access.port}"
    cookies = {viewer.access.cookie_name: viewer.access.session} if has_cookie else {}
    return TestClient(
        create_app(viewer),
        base_url=address,
        headers={"origin": address},
        cookies=cookies,
        follow_redirects=False,
    )


@contextmanager
def serve_viewer(folder: Path, named: Sequence[str] = ()) -> Iterator[str]:
    """Start a viewer for a browser, and yield its address with the token."""
    with open_socket("127.0.0.1", 0) as listener:
        viewer = create_viewer(folder, *named, port=listener.getsockname()[1])
        server = uvicorn.Server(configure_server(create_app(viewer)))
        listener.listen(128)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{viewer.access.port}/?token={TOKEN}"
        finally:
            server.should_exit = True
            thread.join(10)
