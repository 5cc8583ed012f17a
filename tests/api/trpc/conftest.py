"""Fixtures: real MariaDB and PostgreSQL servers, in one container for the whole session."""

import contextlib
import io
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.agents.containers.test_docker import IMAGE, connect_client

_TAG = "evalgate-test-databases"
_DOCKERFILE = f"""
FROM {IMAGE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    mariadb-server postgresql && rm -rf /var/lib/apt/lists/*
"""
_START = """
set -e
mkdir -p /run/mysqld && chown mysql /run/mysqld
mariadbd-safe --bind-address=0.0.0.0 --skip-networking=0 --innodb-flush-log-at-trx-commit=0 \\
    --innodb-flush-method=nosync &
until mariadb-admin ping --silent; do sleep 0.2; done
mariadb -e "CREATE USER 'test'@'%' IDENTIFIED BY 'test'; GRANT ALL ON *.* TO 'test'@'%'"
printf "listen_addresses = '*'\\nfsync = off\\nsynchronous_commit = off\\nfull_page_writes = off\\n" >> /etc/postgresql/*/main/postgresql.conf
echo "host all all all scram-sha-256" >> /etc/postgresql/*/main/pg_hba.conf
service postgresql start
until su postgres -c "psql -c \\"CREATE USER test SUPERUSER PASSWORD 'test'\\""; do sleep 0.2; done
echo ready
wait
"""
_PORTS = {"mysql": "3306/tcp", "postgresql": "5432/tcp"}
_SCHEMES = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg"}
_FIRST = {"mysql": "mysql", "postgresql": "postgres"}
"""A database that exists on every server, by kind."""
_PATIENCE_S = 120


@pytest.fixture(scope="session")
def database_servers() -> Iterator[dict[str, str]]:
    """Yield the SQLAlchemy URL of each server by kind. The URL has no database name."""
    client = connect_client()
    client.images.build(fileobj=io.BytesIO(_DOCKERFILE.encode()), tag=_TAG, rm=True)
    container = client.containers.run(
        _TAG, ["bash", "-c", _START], detach=True, init=True, ports=dict.fromkeys(_PORTS.values())
    )
    try:
        _wait_until_ready(container)
        ports = {
            name: container.attrs["NetworkSettings"]["Ports"][port][0]["HostPort"]
            for name, port in _PORTS.items()
        }
        yield {name: f"{_SCHEMES[name]}://test:test@127.0.0.1:{port}/" for name, port in ports.items()}
    finally:
        container.remove(force=True, v=True)
        client.close()


def _wait_until_ready(container: Any) -> None:
    end = time.monotonic() + _PATIENCE_S
    while b"ready\n" not in container.logs():
        container.reload()
        assert container.status == "running", container.logs().decode()
        assert time.monotonic() < end, container.logs().decode()
        time.sleep(0.3)
    container.reload()


@pytest.fixture
def create_database(database_servers: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """Yield a function that creates an empty database on a server and returns its URL."""
    with contextlib.ExitStack() as stack:

        def create(kind: str) -> str:
            name = f"test_{uuid.uuid4().hex[:12]}"
            engine = sa.create_engine(
                database_servers[kind] + _FIRST[kind], isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
            )
            stack.callback(engine.dispose)
            with engine.connect() as connection:
                connection.execute(sa.text(f"CREATE DATABASE {name}"))
            return database_servers[kind] + name

        yield create
