"""Documents (texts of files) in a table of a database, through SQLAlchemy."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evalgate.api.trpc.errors import StorageError
from evalgate.api.trpc.stores import Change
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

_ATTEMPTS = 5
_LONGEST_NAME = 255  # characters; MySQL's longest primary key holds two names of this length


class SqlStore:
    """Documents in one table of a database. The table is created if necessary.

    The columns are `app_name`, `name`, `document` (the text of the file) and `updated_at` (Unix seconds). A
    change of a document locks its row, so several processes can change documents at the same time.
    """

    def __init__(self, database: "str | Engine", table: str) -> None:
        """Open the database, and create the table if it does not exist.

        Args:
            database: A URL of SQLAlchemy, or an engine, which the caller must close.
            table: Name of the table.

        Raises:
            InvalidInputError: SQLAlchemy or the database's driver is missing, or `database` is neither a
                valid URL nor an engine.
            StorageError: the database cannot be reached, or the table cannot be created.
        """
        try:
            import sqlalchemy as sa
        except ImportError:
            raise InvalidInputError(f"SQL needs SQLAlchemy: {describe_install('sql')}") from None
        if not isinstance(database, str | sa.Engine):
            raise InvalidInputError(
                f"`database` is {database!r}: it must be a URL or an engine of SQLAlchemy"
            )
        self._owns_engine = isinstance(database, str)
        self._engine = _open_engine(database) if isinstance(database, str) else database
        self._lock = threading.Lock()
        self._table = _build_table(table)
        try:
            with _translate_errors(self._table.name):
                self._table.create(self._engine, checkfirst=True)
        except StorageError:
            self.close()  # the caller gets no object to close
            raise
        self._select = sa.select

    def read(self, app_name: str, name: str) -> bytes | None:
        """Return the text of a document in UTF-8, or None if the document does not exist.

        Raises:
            StorageError: the table cannot be read.
        """
        with self._lock, _translate_errors(self._table.name), self._engine.connect() as connection:
            return self._find(connection, app_name, name)

    def change(self, app_name: str, name: str, update: Change) -> None:
        """Replace a document with the text that `update` returns. If `update` returns None, delete it.

        `update` gets the current text, or None if the document does not exist. It may be called up to five
        times, because another process may change the table at the same time. If `update` raises an exception,
        the document is unchanged and the exception is raised.

        Raises:
            StorageError: the table cannot be used, or the change failed in every attempt.
        """
        from sqlalchemy.exc import IntegrityError, OperationalError

        with self._lock, _translate_errors(self._table.name):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    with self._engine.begin() as connection:
                        self._change_row(connection, app_name, name, update)
                except (IntegrityError, OperationalError):  # another process inserted the row, or a deadlock
                    if attempt == _ATTEMPTS:
                        raise
                    time.sleep(0.05 * attempt)
                else:
                    return

    def _change_row(self, connection: "Connection", app_name: str, name: str, update: Change) -> None:
        table = self._table
        where = (table.c.app_name == app_name) & (table.c.name == name)
        # Writing first takes the lock before the content is read. SQLite has no `SELECT … FOR UPDATE`.
        connection.execute(table.update().where(where).values(updated_at=time.time()))
        before = self._find(connection, app_name, name)
        text = update(before)
        if text is None:
            connection.execute(table.delete().where(where))
        elif before is None:
            row = {"app_name": app_name, "name": name, "document": text, "updated_at": time.time()}
            connection.execute(table.insert().values(row))
        else:
            connection.execute(table.update().where(where).values(document=text, updated_at=time.time()))

    def _find(self, connection: "Connection", app_name: str, name: str) -> bytes | None:
        table = self._table
        query = self._select(table.c.document).where(table.c.app_name == app_name, table.c.name == name)
        text: str | None = connection.execute(query).scalar()
        return None if text is None else text.encode()

    def list(self, app_name: str) -> Sequence[str]:
        """Return the names of an app's documents, in any order.

        Raises:
            StorageError: the table cannot be read.
        """
        query = self._select(self._table.c.name).where(self._table.c.app_name == app_name)
        with self._lock, _translate_errors(self._table.name), self._engine.connect() as connection:
            return [str(name) for name in connection.execute(query).scalars()]

    def describe(self, app_name: str, name: str) -> str:
        """Return the name of a document for errors: `TABLE: APP/NAME`."""
        return f"{self._table.name}: {app_name}/{name}"

    def close(self) -> None:
        """Close the connections. If the caller passed the engine, leave them open."""
        if self._owns_engine:
            self._engine.dispose()


def _open_engine(url: str) -> "Engine":
    import sqlalchemy as sa

    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
            # One connection for all threads: each connection has its own in-memory database.
            options = {"poolclass": sa.StaticPool, "connect_args": {"check_same_thread": False}}
            return sa.create_engine(parsed, **options)
        return sa.create_engine(parsed, pool_pre_ping=True)
    except sa.exc.ArgumentError as error:
        raise InvalidInputError(f"this is no URL of a database: {error}") from None
    except ImportError as error:
        raise InvalidInputError(f"the driver of the database is not installed: {error}") from None


def _build_table(name: str) -> "Table":
    import sqlalchemy as sa
    from sqlalchemy.dialects.mysql import LONGTEXT

    # Names that differ only in case or accents are different, as for files. MySQL would ignore both.
    column = sa.String(_LONGEST_NAME)
    exact = column.with_variant(sa.String(_LONGEST_NAME, collation="utf8mb4_bin"), "mysql", "mariadb")
    text = sa.Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("app_name", exact, primary_key=True),
        sa.Column("name", exact, primary_key=True),
        sa.Column("document", text, nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
    )


@contextmanager
def _translate_errors(table: str) -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        # Not the error's whole text, which has the SQL statement with the documents.
        reason = str(getattr(error, "orig", None) or error)
        raise StorageError(f"the table {table} cannot be used: {reason}") from error
