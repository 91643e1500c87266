"""Whether another process has deployed a newer schema than the one that a running stream writes."""

from __future__ import annotations

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Stat
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema


class SchemaWatch:
    """Looks at the deployed schema after each batch: one ``stat``, and a read when the file has changed."""

    def __init__(self, place: TablePlace, schema: TableSchema) -> None:
        self._place, self._schema = place, schema
        self._seen: Stat | None = None
        self._said = schema.version

    def news(self) -> str | None:
        """A sentence about a version that was deployed since, once; else None."""
        stat = self._place.fs.stat(self._place.schema)
        if stat == self._seen:
            return None
        self._seen = stat
        try:
            deployed = load_deployed(self._place)
        except SparkhavenError as error:
            return f"the deployed schema cannot be read: {error.what}"
        if deployed.version == self._said:
            return None
        self._said = deployed.version
        return (
            f"schema version {deployed.version} is deployed ({_difference(self._schema, deployed)}). This stream writes"
            f" version {self._schema.version} until it starts again with that schema"
        )


def _difference(old: TableSchema, new: TableSchema) -> str:
    before, after = ({c.id: c.name for c in schema.columns} for schema in (old, new))
    parts = [f"adds {after[number]}" for number in after.keys() - before.keys()]
    parts += [f"drops {before[number]}" for number in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    parts += [f"renames {before[n]} to {after[n]}" for n in both if before[n] != after[n]]
    return "; ".join(sorted(parts)) or "the same columns"
