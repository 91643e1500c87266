"""For Airflow on SQLite: put it into ``AIRFLOW_HOME/config``. Backfills then do not fail with "database is locked".

SQLAlchemy opens a transaction of SQLite by a savepoint, which takes no lock. A backfill reads after the savepoint and
writes then: if another process of Airflow has written in between, SQLite refuses at once, however long its time-out.
The release of that savepoint also commits, so that the scheduler starts runs which the failed backfill removes again,
and ends by that. With the lock of a writer taken before the savepoint, the others wait, and all runs appear at once.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

__all__: list[str] = []  # Airflow copies what stands here into its settings


@event.listens_for(Engine, "savepoint")
def lock_before_reading(connection: Any, name: str) -> None:
    """Begins a transaction that may write; the savepoint follows within it."""
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
