"""Reads tables of an SQLite file that somebody else wrote: read-only, whatever columns there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport

_MAGIC = b"SQLite format 3\0"
# Messages about a damaged file quote it and may then be no UTF-8; integers may be too large.
_REFUSED = (sqlite3.Error, UnicodeDecodeError, OverflowError)


class SqliteFile:
    """An SQLite database, opened so that nothing is written beside it either.

    Raises:
        UnreadableInputError: SQLite cannot open it.
    """

    def __init__(self, path: Path, report: ImportReport) -> None:
        self._report = report
        # `immutable` keeps SQLite from making -wal and -shm files.
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            # Views could compute without end; tables only.
            rows = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            self.tables = {str(name) for (name,) in rows}
        except _REFUSED as error:
            raise UnreadableInputError(f"{path} cannot be read as SQLite: {error}") from None

    def __enter__(self) -> SqliteFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def columns(self, table: str) -> set[str]:
        """The columns of a table; none where it does not exist."""
        if table not in self.tables:
            return set()
        try:
            return {str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")}
        except _REFUSED:
            self._report.add_problem("damaged_table")
            return set()

    def strings(self, table: str, key: str) -> dict[int, str]:
        """A table of strings: what its column `value` says, by number."""
        return {to_int(number, -1): str(value) for number, value in self.rows(table, key, "value")}

    def rows(self, table: str, *wanted: str) -> Iterator[tuple[Any, ...]]:
        """The wanted columns of all rows, in this order; None for columns that the table does not have.

        A table that is damaged yields its rows up to there.
        """
        columns = self.columns(table)
        if not columns:
            return
        selected = ", ".join(_quoted(name) if name in columns else "NULL" for name in wanted)
        try:
            yield from self._connection.execute(f"SELECT {selected} FROM {_quoted(table)}")
        except _REFUSED:
            self._report.add_problem("damaged_table")


def has_table(file: InputFile, table: str) -> bool:
    """Whether the file is an SQLite database with that table.

    Raises:
        UnreadableInputError: it begins as one, but SQLite cannot open it.
    """
    if file.compression or not file.head.startswith(_MAGIC):
        return False
    with SqliteFile(file.path, ImportReport("sqlite")) as database:
        return table in database.tables


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
