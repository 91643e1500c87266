"""Directories whose files belong to a table format: its log says which of them count, so they are not read as files."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

_ICEBERG = re.compile(r"(v[0-9]+|[0-9]{5,}-[0-9a-f-]{36})(\.gz)?\.metadata\.json(\.gz)?\Z")
_PAIMON = re.compile(r"snapshot-[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class _Format:
    """A table format by a name that its tables have: of a directory, or a file.

    ``inside``: what one of the names in the directory is like.
    """

    name: str
    marker: str
    is_dir: bool = True
    inside: re.Pattern[str] | None = None


FORMATS = (
    _Format("Delta", "_delta_log"),
    _Format("Hudi", ".hoodie"),
    _Format("Hudi", ".hoodie_partition_metadata", is_dir=False),  # a partition, wherever it was copied to
    _Format("Iceberg", "metadata", inside=_ICEBERG),
    _Format("Paimon", "snapshot", inside=_PAIMON),
)


def refuse_managed(fs: Fs, directory: Path, names: Collection[str] | None = None) -> None:
    """SettingsError for the directory of a table of another format; ``names``: what is in it, if that is known."""
    for kind in FORMATS:
        marker = directory / kind.marker
        if names is not None and kind.marker not in names:
            continue
        stat = fs.stat(marker)
        if stat is None or stat.is_dir != kind.is_dir:
            continue
        if kind.inside is None or any(kind.inside.match(name) for name in fs.names(marker)):
            raise _managed(kind, directory)


def refuse_managed_above(fs: Fs, path: Path) -> None:
    """The same for every directory above a path, by its name and by what links on it lead to."""
    for directory in dict.fromkeys((*path.parents, *fs.resolve(path).parents)):
        refuse_managed(fs, directory)


def _managed(kind: _Format, directory: Path) -> SettingsError:
    delta = (
        f'read it by its log: [feed] with type = "delta" and path = "{directory}", or import NS.T --from {directory}'
    )
    none = f"tables of {kind.name} are not read. Have the rows written to a Delta table or to plain files"
    return SettingsError(
        f"the directory is that of a table of {kind.name}, whose log says which files count",
        where=directory,
        expected="files that no table format manages",
        found=kind.marker,
        hint=delta if kind.name == "Delta" else none,
    )
