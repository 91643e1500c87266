"""Deletion vectors of each form: as the protocol writes them, and damaged."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from sparkhaven.store.delta.vectors import MAGIC, Vector, decode_rows, deleted_rows, kept_rows, vector_of, z85
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs

FS = Fs()
SOME = [0, 5, 4095, 65535]
DENSE = [n for n in range(65536) if n % 3]
RUNS = [*range(10, 5000), *range(60000, 65536)]


def container(numbers: list[int], *, runs: bool) -> tuple[bytes, int]:
    """The bytes of a container of 16 bits."""
    if runs:
        array = np.array(numbers)
        starts = array[np.flatnonzero(np.diff(array, prepend=-2) != 1)]
        ends = array[np.flatnonzero(np.diff(array, append=1 << 20) != 1)]
        pairs = [value for start, end in zip(starts, ends, strict=True) for value in (start, end - start)]
        return struct.pack(f"<H{len(pairs)}H", len(starts), *pairs), len(numbers)
    if len(numbers) <= 4096:
        return struct.pack(f"<{len(numbers)}H", *numbers), len(numbers)
    bits = np.zeros(65536, np.bool_)
    bits[numbers] = True
    return np.packbits(bits, bitorder="little").tobytes(), len(numbers)


def bitmap(containers: dict[int, list[int]], *, runs: bool) -> bytes:
    """A bitmap of 32 bits in roaring's portable form; ``runs``: its last container is one of runs."""
    packed = {key: container(numbers, runs=runs and key == max(containers)) for key, numbers in containers.items()}
    heads = b"".join(struct.pack("<HH", key, count - 1) for key, (_, count) in packed.items())
    if not runs:
        head = struct.pack("<II", 12346, len(packed)) + heads
    else:
        flags = sum(1 << place for place, key in enumerate(packed) if key == max(containers))
        head = struct.pack("<I", 12347 | (len(packed) - 1) << 16)
        head += flags.to_bytes((len(packed) + 7) // 8, "little") + heads
    if not runs or len(packed) >= 4:
        head += bytes(4 * len(packed))  # where they begin, which follows from their sizes
    return head + b"".join(data for data, _ in packed.values())


def vector_bytes(bitmaps: dict[int, bytes]) -> bytes:
    return struct.pack("<IQ", MAGIC, len(bitmaps)) + b"".join(
        struct.pack("<I", high) + data for high, data in bitmaps.items()
    )


FORMS = {
    "a list": ({0: bitmap({0: SOME}, runs=False)}, SOME),
    "bits": ({0: bitmap({0: SOME, 2: DENSE}, runs=False)}, [*SOME, *(n + (2 << 16) for n in DENSE)]),
    "runs": ({0: bitmap({1: RUNS}, runs=True)}, [n + 65536 for n in RUNS]),
    "many with runs": (
        {0: bitmap({n: SOME if n < 5 else RUNS for n in range(6)}, runs=True)},
        [*(m + (n << 16) for n in range(5) for m in SOME), *(m + (5 << 16) for m in RUNS)],
    ),
    "above 32 bits": (
        {0: bitmap({0: [7]}, runs=False), 3: bitmap({9: [1]}, runs=False)},
        [7, (3 << 32) + (9 << 16) + 1],
    ),
    "nothing": ({}, []),
}


@pytest.mark.parametrize("form", FORMS)
def test_row_numbers_of_each_form(form: str) -> None:
    bitmaps, rows = FORMS[form]
    assert decode_rows(vector_bytes(bitmaps)).tolist() == rows


@pytest.mark.parametrize("form", FORMS)
def test_bytes_that_are_missing_or_too_many_are_damage(form: str) -> None:
    data = vector_bytes(FORMS[form][0])
    cuts = {*range(min(len(data), 80)), *range(max(0, len(data) - 40), len(data))}
    for length in sorted(cuts):
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode_rows(data[:length])
    with pytest.raises(ValueError, match="behind the last bitmap"):
        decode_rows(data + b"\0")


def file_of(path: Path, rows: int = 4) -> Vector:
    data = vector_bytes(FORMS["a list"][0])
    path.write_bytes(b"\1" + b"junk" + struct.pack(">I", len(data)) + data + struct.pack(">I", crc32(data)))
    return Vector("u", str(path), 5, len(data), rows)


def test_a_vector_in_a_file_is_compared_with_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    vector = file_of(path)
    assert deleted_rows(FS, vector).tolist() == SOME
    data = path.read_bytes()
    for byte in (0, *range(5, len(data))):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ 4]) + data[byte + 1 :])
        with pytest.raises(CorruptFileError):
            deleted_rows(FS, vector)
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptFileError):
        deleted_rows(FS, vector)
    with pytest.raises(CorruptFileError, match="missing or damaged") as caught:
        deleted_rows(FS, file_of(path, rows=5))
    assert caught.value.found == "4 rows where the log says 5"
    path.unlink()
    with pytest.raises(CorruptFileError, match="missing or damaged") as caught:
        deleted_rows(FS, vector)
    assert (caught.value.found, caught.value.where) == ("no such file", f"{path}, byte 5")


def test_rows_that_are_there_and_rows_that_come_back(tmp_path: Path) -> None:
    data = vector_bytes({0: bitmap({0: [0, 2]}, runs=False)})
    inline = Vector("i", _z85(data), 0, len(data), 2)
    whole = file_of(tmp_path / "v.bin")
    assert kept_rows(FS, 4, inline).tolist() == [False, True, False, True]
    assert kept_rows(FS, 3, None, inline).tolist() == [True, False, True]
    assert np.flatnonzero(kept_rows(FS, 1 << 16, inline, whole)).tolist() == [5, 4095, 65535]
    with pytest.raises(CorruptFileError) as caught:
        kept_rows(FS, 65535, whole)
    assert caught.value.found == "row 65535 of a file of 65535 rows"


def _z85(data: bytes) -> str:
    signs = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(signs[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def test_signs_are_bytes() -> None:
    assert z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")
    for text in ("Hello~", "HellO~orld", "#####"):
        with pytest.raises(ValueError, match=r"Z85|32 bits"):
            z85(text)


def test_where_vectors_are(tmp_path: Path) -> None:
    said = {"sizeInBytes": 40, "cardinality": 6, "offset": 4}
    named = {**said, "storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    vector = vector_of(tmp_path, {"path": "x", "deletionVector": named})
    assert vector == Vector(
        "u", str(tmp_path / "ab" / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"), 4, 40, 6
    )
    elsewhere = {**said, "storageType": "p", "pathOrInlineDv": "file:///a%20b/v.bin"}
    vector = vector_of(tmp_path, {"path": "x", "deletionVector": elsewhere})
    assert vector is not None and vector.place == "/a b/v.bin"
    assert vector_of(tmp_path, {"path": "x"}) is None
