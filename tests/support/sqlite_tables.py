"""SQLite databases in the shape that nsys and nvprof write."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

CUPTI_PREFIX = "CUPTI_ACTIVITY_KIND_"

Tables = dict[str, list[dict[str, Any]]]


def write_tables(path: Path, tables: Tables) -> Path:
    """Writes a database with these rows; the first of a table has all its columns."""
    with sqlite3.connect(path) as database:
        for table, rows in tables.items():
            columns = list(rows[0])
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            for row in rows:
                database.execute(f"INSERT INTO {table} VALUES ({marks})", list(row.values()))
    database.close()
    return path
