"""The newest version of a Delta table as a tree: its data files, with the values of partition columns from the log.

A data file may lack a column of the table that was added later: it is null there. It may write names in other case.
"""

from __future__ import annotations

import json
from pathlib import Path

from sparkhaven.store.delta.column_names import own_names
from sparkhaven.store.delta.log import LOG, damaged
from sparkhaven.store.delta.snapshot import NO_VERSION, read_snapshot
from sparkhaven.store.errors import SchemaMismatchError, TableNotFoundError
from sparkhaven.store.format.parquet.trees import HIVE_NULL
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import check_partition
from sparkhaven.store.suggestions import meant
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.tree_leaves import FoundTree
from sparkhaven.writers.imports.tree_walk import FoundLeaf


def delta_tree(fs: Fs, root: Path, schema: TableSchema, ignored: frozenset[str] = frozenset()) -> FoundTree:
    """The leaves of a Delta table. ``ignored``: its columns that are not read.

    TableNotFoundError: there is none, or it has no rows. CorruptFileError, UnsupportedVersionError: it cannot be read.
    SchemaMismatchError: it is partitioned by a column that the table does not have, or a row has no date.
    """
    snapshot = read_snapshot(fs, root)
    if snapshot.version == NO_VERSION or not snapshot.files:
        raise TableNotFoundError(
            "the Delta table has no rows" if snapshot.version != NO_VERSION else "no such Delta table",
            where=root,
            expected="at least one data file",
            found=f"version {snapshot.version}" if snapshot.version != NO_VERSION else "no version",
            hint="check --from",
        )
    try:
        declared = frozenset(str(field["name"]) for field in json.loads(snapshot.metadata["schemaString"])["fields"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(root / LOG, f"schemaString: {error!r}") from error
    leaves = [
        _leaf(root, path, dict(snapshot.files[path].get("partitionValues") or {}), schema, declared, ignored)
        for path in snapshot.paths()
    ]
    return FoundTree(root, "delta", tuple(leaves), version=snapshot.version)


def _leaf(
    root: Path,
    path: Path,
    values: dict[str, str | None],
    schema: TableSchema,
    declared: frozenset[str],
    ignored: frozenset[str],
) -> FoundLeaf:
    partitioning = schema.partitioning
    assert partitioning is not None  # noqa: S101  the caller saw it
    names = [column.name for column in schema.columns]
    given = {own: values[name] for name, own in own_names(values, declared).items() if own not in ignored}
    odd = sorted(given.keys() - set(names))
    if odd:
        raise SchemaMismatchError(
            "the Delta table is partitioned by a column that the table lacks",
            where=path,
            expected=", ".join(names),
            found=", ".join(odd),
            hint=meant(odd[0], names) or f"ignore it: --ignore {odd[0]}",
        )
    value = None
    if partitioning.name in given:
        value = given.pop(partitioning.name)
        if not value:
            raise SchemaMismatchError(
                "rows have no partition value",
                where=f"{path}, column {partitioning.name}",
                expected="a text",
                found="null",
                hint="have these rows written with a date",
            )
        check_partition("partition value", value)
    columns = tuple((name, text or HIVE_NULL) for name, text in given.items())  # an empty text is null in Delta
    name = path.relative_to(root).as_posix() if root in path.parents else str(path)
    return FoundLeaf(path, name, value, columns=columns, declared=declared)
