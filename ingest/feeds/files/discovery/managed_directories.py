"""Directories whose files belong to a table format: its log says which of them count, so they are not read as files."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.frozen import frozen

_ICEBERG = re.compile(r"(v[0-9]+|[0-9]{5,}-[0-9a-f-]{36})(\.gz)?\.metadata\.json(\.gz)?\Z")


@frozen
class _Format:
    """A table format by the directory that its tables have; ``inside``: what one of the names there is like."""

    name: str
    directory: str
    inside: re.Pattern[str] | None = None


FORMATS = (_Format("Delta", "_delta_log"), _Format("Hudi", ".hoodie"), _Format("Iceberg", "metadata", _ICEBERG))


def refuse_managed(fs: Fs, directory: Path, names: Collection[str] | None = None) -> None:
    """SettingsError for the directory of a table of another format; ``names``: what is in it, if that is known."""
    for kind in FORMATS:
        log = directory / kind.directory
        if names is not None and kind.directory not in names:
            continue
        stat = fs.stat(log)
        if stat is None or not stat.is_dir:
            continue
        if kind.inside is None or any(kind.inside.match(name) for name in fs.names(log)):
            raise _managed(kind, directory)


def refuse_managed_above(fs: Fs, path: Path) -> None:
    """The same for every directory above a path."""
    for directory in path.parents:
        refuse_managed(fs, directory)


def _managed(kind: _Format, directory: Path) -> SettingsError:
    delta = f'read it by its log: [feed] with type = "delta" and path = "{directory}"'
    none = f"no feed reads {kind.name} tables. Have its rows written to a Delta table or to plain files, and read those"
    return SettingsError(
        f"the directory is that of a table of {kind.name}, whose log says which files count",
        where=directory,
        expected="files that no table format manages",
        found=kind.directory,
        hint=delta if kind.name == "Delta" else none,
    )
