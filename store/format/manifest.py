"""Manifests: what a directory holds that was written as a whole. The manifest is its last file.

One JSON object in canonical form (ASCII, keys sorted, no white space), and a line feed:

============  =====================================================================================
``kind``      ``snapshot``, ``detached date`` or ``exported tree``; each has a file name of its own
``version``   1
``about``     what the writer of the kind says of the whole
``parts``     name -> ``about``, and ``files``: path below the directory -> ``[bytes, CRC-32]``
``checksum``  CRC-32 of the object without it
============  =====================================================================================

The parts are tables of a snapshot, locations of a detached date, leaves of a tree. A CRC-32 is that of the whole file.
Of a ``.dat`` file in a snapshot it is that of the bytes behind the prefix, as in the commit log, and null where a merge
record has it. There, bytes behind those of the manifest belong to a later snapshot.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from sparkhaven.store.errors import CorruptFileError, TableNotFoundError, UnsupportedVersionError
from sparkhaven.store.framing import BROKEN, dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import SNAPSHOT_MANIFEST
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState

VERSION = 1
View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class ManifestKind:
    """``name`` of the file; ``missing`` and ``damaged`` are hints."""

    title: str
    name: str
    missing: str
    damaged: str


SNAPSHOT = ManifestKind(
    "snapshot", SNAPSHOT_MANIFEST, "name the --out of a snapshot that was finished", "take another snapshot"
)
DETACHED = ManifestKind(
    "detached date",
    "detached.json",
    "name a directory of a detached date, or one with several",
    "restore it from a copy. Nothing else names what was detached",
)
TREE = ManifestKind(
    "exported tree",
    "_manifest.json",
    "name the --out of an export that was finished",
    "export again with --replace, or remove the file to take the tree as one of another program",
)
KINDS = SNAPSHOT, DETACHED, TREE


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """``about``: what the kind says of a part. The checksum of a file is ``UNKNOWN`` where another record has it."""

    about: Mapping[str, Any]
    files: Mapping[str, FileState]

    @property
    def bytes(self) -> int:
        return sum(state.size for state in self.files.values())


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file of a kind."""

    kind: ManifestKind
    about: Mapping[str, Any]
    parts: Mapping[str, ManifestPart]

    @property
    def files(self) -> dict[str, FileState]:
        """Those of all parts."""
        return {path: state for part in self.parts.values() for path, state in part.files.items()}

    @property
    def id(self) -> str:
        """Differs where any byte of the file would."""
        return sha256(encode(self)).hexdigest()[:24]


def encode(manifest: Manifest) -> bytes:
    """The bytes of the file; the same manifest gives the same bytes."""
    parts = {
        name: {"about": part.about, "files": {path: _entry(state) for path, state in part.files.items()}}
        for name, part in manifest.parts.items()
    }
    return _signed({"kind": manifest.kind.title, "version": VERSION, "about": manifest.about, "parts": parts})


def _entry(state: FileState) -> list[int | None]:
    return [state.size, None if state.crc == UNKNOWN else state.crc]


def _signed(value: Mapping[str, Any]) -> bytes:
    return dump({**value, "checksum": zlib.crc32(dump(value))}) + b"\n"


def decode(data: bytes, kind: ManifestKind, where: object, view: Callable[[Manifest], View]) -> View:
    """What ``view`` makes of the manifest of that kind.

    Args:
        data: The bytes of the file.
        kind: What it has to be.
        where: Its path, for errors.
        view: Reads the members of ``about``. What it raises for members that are missing or odd is damage.

    Returns:
        What ``view`` returns.

    Raises:
        CorruptFileError: The file is damaged, or of another kind.
        UnsupportedVersionError: It is of another version.
    """
    try:
        value = json.loads(data)
        version = value["version"]
        if version != VERSION:
            raise UnsupportedVersionError(
                f"manifest of a {kind.title} has a version that this release cannot read",
                where=where,
                expected=VERSION,
                found=version,
                hint="use the release that wrote it, or a newer one",
            )
        del value["checksum"]
        if _signed(value) != data:
            raise ValueError("bytes that do not have their checksum")
        if value["kind"] != kind.title:
            raise ValueError(f"the manifest of a {value['kind']}")
        parts = {str(name): _part(part) for name, part in value["parts"].items()}
        return view(Manifest(kind, value["about"], parts))
    except BROKEN as error:
        raise CorruptFileError(
            f"manifest of a {kind.title} is damaged",
            where=where,
            expected="its content, with its checksum",
            found=repr(error),
            hint=kind.damaged,
        ) from error


def load(fs: Fs, directory: Path, kind: ManifestKind, view: Callable[[Manifest], View]) -> View:
    """The manifest in a directory. TableNotFoundError: there is none. Else raises as ``decode``."""
    path = directory / kind.name
    if fs.stat(path) is None:
        raise TableNotFoundError(
            f"the directory has no {kind.title}",
            where=directory,
            expected=kind.name,
            found="nothing" if fs.stat(directory) is None else "a directory without it",
            hint=kind.missing,
        )
    return decode(fs.read(path), kind, path, view)


def _part(value: Mapping[str, Any]) -> ManifestPart:
    files = {}
    for path, (size, crc) in value["files"].items():
        if path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise ValueError(f"path {path!r}")
        files[path] = FileState(int(size), UNKNOWN if crc is None else int(crc))
    return ManifestPart(value["about"], files)
