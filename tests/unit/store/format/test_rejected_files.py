"""What a reader must reject: every kind of file that is damaged, of another version, or of another schema.

Each error names the path, with the byte, row, entry or key where there is one, what was expected, what was found, and a
command that helps. What is accepted quietly is here too, with what `verify` says of it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.location import check_location
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, TableSchema
from tests.support.tables.big_endian import big_endian
from tests.support.tables.column_cases import FS, NOTE, SIZE, SYM, write
from tests.support.tables.rejected_columns import COLUMNS
from tests.support.tables.rejected_records import RECORDS, Rejected

COMMAND = re.compile(r"`sparkhaven [a-z]+|--[a-z]+")
CASES = {f"{case.row}: {case.kind}": case for case in (*RECORDS, *COLUMNS)}


def test_each_case_has_a_name_of_its_own() -> None:
    assert len(CASES) == len(RECORDS) + len(COLUMNS) > 150


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_rejected(tmp_path: Path, case: Rejected) -> None:
    with pytest.raises(case.error) as caught:
        case.read(tmp_path)
    error = caught.value
    assert type(error) is case.error and error.what.startswith(case.what), error.what
    assert str(error.where).startswith(str(tmp_path)) and case.where in str(error.where), error.where
    assert error.expected and error.found, "what was expected, and what was found"
    assert error.hint and COMMAND.search(error.hint), error.hint
    assert pickle.loads(pickle.dumps(error)).where == error.where


# --- accepted quietly, reported by verify --------------------------------------------------------------------

TEXTS = ["b", None, "a", "b"]


def _tail(path: Path) -> None:
    FS.write_at(path / "Note.bytes", 3, b"never committed")


def _more_keys(path: Path) -> None:
    big_endian(path, SIZE, Later="x")


def _other_order(path: Path) -> None:
    big_endian(path, SIZE)


def _overflow_unasked(path: Path) -> None:
    FS.write_new(path / "Sym.ovr", b"anything")


def _symbols(*texts: bytes) -> Callable[[Path], None]:
    """Another symbol table: rows have the symbols 0, null, 1, 2."""

    def change(path: Path) -> None:
        FS.write_new(path / "Sym.sym", np.cumsum([len(text) for text in texts]).astype("<i8").tobytes())
        FS.write_new(path / "Sym.sym.bytes", b"".join(texts))
        FS.write_at(path / "Sym.dat", 4096, np.array([0, -(2**31), 1, 2], "<i4").tobytes())

    return change


ACCEPTED: dict[str, tuple[Column, Callable[[Path], None], Sequence[object], str]] = {
    "bytes beyond the committed extent": (NOTE, _tail, TEXTS, "W206"),
    "unknown keys of a prefix": (SIZE, _more_keys, [1, None, 3, 4], "N212"),
    "the other byte order": (SIZE, _other_order, [1, None, 3, 4], "N213"),
    ".ovr and the flag FALSE": (SYM, _overflow_unasked, TEXTS, "E228"),
    "duplicate symbols": (SYM, _symbols(b"a", b"b", b"b"), ["a", None, "b", "b"], "N246"),
    "zero-length symbols": (
        SYM,
        _symbols(b"a", b"", b"b"),
        ["a", None, None, "b"],
        "N245",
    ),
    "unsorted symbols of history": (
        SYM,
        _symbols(b"c", b"a", b"b"),
        ["c", None, "a", "b"],
        "N247",
    ),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_accepted_quietly_and_reported(tmp_path: Path, kind: str) -> None:
    column, change, values, code = ACCEPTED[kind]
    directory = tmp_path / "a" / "2024-03-05" / "T"
    directory.mkdir(parents=True)
    sizes = write(directory, column, [1, None, 3, 4] if column is SIZE else TEXTS)
    change(directory)
    sizes |= {n: (directory / n).stat().st_size for n in sizes if column is SYM and not n.endswith(".dat")}
    assert read_column(FS, directory, column, sizes, 4).to_pylist() == values
    front = {name: 8192 if column is SIZE else 4096 if name.endswith(".dat") else 0 for name in sizes}
    states = {n: FileState(size, checksum(FS, directory / n, front[n], size)) for n, size in sizes.items()}
    schema = TableSchema("NS", "T", (column,), nested=True)
    expected = Expected("history" if "history" in kind else "intraday", directory, 4, states, {})
    found = [*check_location(FS, schema, expected, frozenset(), deep=True)]
    own = [defect for defect in found if not defect.path.endswith(("table.size", "table.tbl"))]
    assert code in {defect.code for defect in own}, [defect.text() for defect in own]
    assert {defect.severity for defect in own} <= {"note", "warning"} or kind.startswith(".ovr")


def test_padding_that_is_not_zero_is_damage(tmp_path: Path) -> None:
    """A prefix has one form, up to the first row: a change that leaves it readable would be seen nowhere else."""
    sizes = write(tmp_path, NOTE, TEXTS)
    FS.write_at(tmp_path / "Note.dat", len(encode_prefix(NOTE)) - 1, b"x")
    with pytest.raises(CorruptFileError, match="differ from the canonical encoding"):
        read_column(FS, tmp_path, NOTE, sizes, 4)
