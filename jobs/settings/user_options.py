"""The options of ``df.write.format("deephaven").option("user", "ns.T")``: a frame that becomes a user table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.spark.option_texts import WHERE, given_texts, missing
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName

USER = "user"
SAVE = 'df.write.format("deephaven").option("user", "ns.T").mode("append").save("/data/db")'
_KNOWN = (USER, "root", "path", "partitionBy", "schema", "internal")


@dataclass(frozen=True, slots=True)
class UserOptions:
    """Which user table to save, and how; those of ``save_table``."""

    root: Path
    table: TableName
    partition_by: str | None = None
    schema: Path | None = None
    internal: str | None = None


def names_user_table(options: Mapping[str, str]) -> bool:
    return any(name.lower() == USER for name in options)


def user_options(options: Mapping[str, str], environ: Mapping[str, str]) -> UserOptions:
    """The options of a write, whose names are not case-sensitive; SettingsError, InvalidNameError for wrong ones.

    ``path``, the argument of ``save``, is the database root; so is ``root``, and SPARKHAVEN_ROOT without either.
    """
    texts = given_texts(options, _KNOWN)
    roots = [texts[name] for name in ("root", "path") if texts.get(name)]
    if len(set(roots)) > 1:
        raise SettingsError(
            "two database roots are given", where=WHERE, expected=SAVE, found=" and ".join(roots), hint="leave one out"
        )
    root = roots[0] if roots else environ.get("SPARKHAVEN_ROOT")
    if not root:
        raise missing("root", SAVE, "or set SPARKHAVEN_ROOT")
    schema = texts.get("schema")
    return UserOptions(
        local_path(root).absolute(),
        TableName.parse(texts[USER]),
        texts.get("partitionBy"),
        None if schema is None else local_path(schema).absolute(),
        texts.get("internal"),
    )
