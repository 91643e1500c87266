"""Readers without a JVM choose rows by keys with a codec alike; Spark does in ``tests/spark``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from sparkhaven import sql
from sparkhaven.readers import open_table
from tests.contracts.codings.coded_keys import CodedKeyContract
from tests.contracts.codings.coded_readers import CODED_NAME
from tests.support.commands import run


def where(column: str, texts: list[str], null: bool) -> str:
    listed = ", ".join(f"'{text}'" for text in texts)
    return f"{column} in ({listed})" + (f" or {column} is null" if null else "")


class TestArrow(CodedKeyContract):
    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        rows = open_table(root, CODED_NAME).to_arrow(["N"], where=where(column, texts, null))
        return [*rows["N"].to_pylist()]


class TestReadCommand(CodedKeyContract):
    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        out = root.parent / "numbers.parquet"
        words = ("--columns", "N", "--where", where(column, texts, null), "--out", str(out))
        done = run(root, "read", CODED_NAME, *words)
        assert done.exit_code == 0, done.stderr
        return [*pq.read_table(out)["N"].to_pylist()]


class TestSql(CodedKeyContract):
    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        listed = ", ".join(f"'{text}'" for text in texts)
        condition = f'"{column}" IN ({listed})' + (f' OR "{column}" IS NULL' if null else "")
        rows = sql(root, f"SELECT N FROM {CODED_NAME} WHERE {condition}")
        return [*rows["N"].to_pylist()]
