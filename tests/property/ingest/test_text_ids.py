"""Ids that the compiled scanners give to texts: each text once, in the order in which they are met, and no other."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.formats.csv.spans import CsvScanner
from sparkhaven.ingest.formats.json.json_rows import Scanner
from sparkhaven.ingest.formats.scan import ROOM, TextIds, TextRoom
from sparkhaven.ingest.spec import CsvOptions, Target
from sparkhaven.store.native.abi import ColumnLayout, SlotLayout
from sparkhaven.store.types.model import Storage
from tests.support.guard_pages import guarded
from tests.support.ingest.ingest_cases import target

MANY = settings(max_examples=200, deadline=None)
TEXT = target("String")
WORDS = st.text("ab\x01é😀", max_size=20) | st.sampled_from(["", "a", "a\x01", "x" * 8, "x" * 9, "x" * 16, "x" * 17])
Texts = Sequence[str | None]


def plain_ids(texts: Sequence[str | None], most: int) -> tuple[list[int | None], list[str]] | None:
    """What the scanner makes of the texts of accepted lines: their ids, and each text once; None for too many."""
    id_of: dict[str, int] = {}
    ids = [None if text is None else id_of.setdefault(text, len(id_of)) for text in texts]
    return (ids, list(id_of)) if len(id_of) <= most else None


def block(lines: Sequence[bytes]) -> LineBlock:
    return framed_block(lines, np.arange(len(lines), dtype=np.int64))


def json_lines(texts: Texts, *, escaped: bool = False) -> LineBlock:
    return block([json.dumps({"v": text}, ensure_ascii=escaped).encode() for text in texts])


def records(texts: Texts) -> LineBlock:
    """A null is an empty field, a quote in a text is written twice."""
    quoted = ['"' + text.replace('"', '""') + '"' if text is not None else "" for text in texts]
    return block([f"{text},1".encode() for text in quoted])


def json_scan(texts: Texts, scanner: Scanner | None = None, *, escaped: bool = False) -> pa.Array:
    found = (scanner or json_scanner()).scan(json_lines(texts, escaped=escaped))
    assert len(found.lines) == len(texts)
    return found.columns[0]


def csv_scan(texts: Texts, scanner: CsvScanner | None = None) -> pa.Array:
    found = (scanner or csv_scanner()).scan(records(texts), 0, last=True, longest=1 << 20, alone=None)
    assert len(found.starts) == len(texts)
    return found.columns[0]


def json_scanner(room: TextRoom = ROOM) -> Scanner:
    return Scanner([TEXT], [("v",)], room=room)


def csv_scanner(room: TextRoom = ROOM) -> CsvScanner:
    return CsvScanner([TEXT], ["v", "w"], CsvOptions(header=False, names=("v", "w")), room)


def few(most: int) -> TextRoom:
    """Texts that a block may have at most, however many lines it has."""
    return TextRoom(most, share=1 << 40)


def as_plain(array: pa.Array, texts: Texts, most: int) -> None:
    """Asserts that the array is what the plain way makes of the texts."""
    array.validate(full=True)
    expected = plain_ids(texts, most)
    if expected is None or not expected[1]:
        assert array.type == pa.string() and array.to_pylist() == list(texts)
        return
    ids, entries = expected
    assert array.type == pa.dictionary(pa.int32(), pa.string())
    assert (array.indices.to_pylist(), array.dictionary.to_pylist()) == (ids, entries)


@pytest.mark.slow
@MANY
@given(st.lists(WORDS | st.none(), min_size=1, max_size=60), st.integers(0, 12))
def test_ids_as_the_plain_way_gives_them(texts: list[str | None], most: int) -> None:
    for escaped in (False, True):
        as_plain(json_scan(texts, json_scanner(few(most)), escaped=escaped), texts, most)
    as_plain(csv_scan(texts, csv_scanner(few(most))), texts, most)


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 4, 8, 9, 12, 16, 17, 40])
def test_many_texts_of_one_length(length: int) -> None:
    chance = random.Random(length)
    count = 200 if length == 2 else 2500
    made = ["".join(chance.choices("abcdefghij é", k=length)) for _ in range(count)]
    texts = [*made, *chance.choices(made, k=30_000)]
    as_plain(json_scan(texts), texts, ROOM.most(len(texts)))
    as_plain(csv_scan(texts), texts, ROOM.most(len(texts)))


def test_as_many_texts_as_may_be_and_one_more() -> None:
    for length in (3, 30):
        texts: Texts = [str(n).zfill(length) for n in range(5)] * 3
        for given_texts in (texts, [None, *texts], [*texts, "one more"], [*texts, None, "one more", "0", None, "and"]):
            as_plain(json_scan(given_texts, json_scanner(few(5))), given_texts, 5)
            as_plain(csv_scan(given_texts, csv_scanner(few(5))), given_texts, 5)


class Crowded(TextIds):
    """A table that is nearly full, so that most texts meet others; ids are dirty before."""

    def prepare(self, layout: ColumnLayout, lines: int, size: int) -> None:
        super().prepare(layout, lines, size)
        layout.slot_mask, layout.most = 7, 7
        self.ids.fill(-7)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40))
def test_texts_that_differ_in_length_alone(seed: int) -> None:
    """The bytes of a short text are its key: those that it does not have are zeros there."""
    texts: list[str | None] = ["a", "a\x00", "a\x00\x00", "", None, "\x00\x00", "a" * 8, "a" * 9] * 3
    scanner = csv_scanner()
    (column,) = scanner._columns._columns
    column.ids = Crowded(seed=seed)
    array = csv_scan(texts, scanner)
    as_plain(array, texts, 7)
    ids = np.frombuffer(array.indices.buffers()[1], np.int32)
    assert ids[4::8].tolist() == [0] * 3, "Arrow looks them up too"


def test_texts_of_the_same_hash() -> None:
    scanner = json_scanner()
    (column,) = scanner._columns._columns
    assert column.ids is not None
    column.ids.seed = 12345
    first, second = colliding(12345)
    assert hash_of(first, 12345) == hash_of(second, 12345) and first != second
    texts = [first.decode(), second.decode()] * 3
    as_plain(json_scan(texts, scanner), texts, 256)


class Forged(TextIds):
    """A table with one text below the hash of another one."""

    text_there: bytes
    text_meant: bytes

    def prepare(self, layout: ColumnLayout, lines: int, size: int) -> None:
        super().prepare(layout, lines, size)
        there, key = np.frombuffer(self.text_there, np.uint8), hash_of(self.text_meant, self.seed)
        self.text[: len(there)], self.ends[1], layout.texts = there, len(there), 1
        self.slots[key & layout.slot_mask] = (key, len(there), 1)


@pytest.mark.parametrize("length", [9, 12, 16, 17, 24, 25, 40])
def test_each_byte_is_compared(length: int) -> None:
    meant = bytes(range(ord("A"), ord("A") + length)).replace(b"\\", b"#")
    for place in range(length + 1):
        there = meant if place == length else meant[:place] + b"~" + meant[place + 1 :]
        scanner = json_scanner()
        (column,) = scanner._columns._columns
        column.ids = Forged()
        column.ids.text_there, column.ids.text_meant = there, meant  # type: ignore[attr-defined]
        texts = [meant.decode(), *[None] * 10]  # which bring room
        array = json_scan(texts, scanner)
        assert array.to_pylist() == texts
        assert array.indices[0].as_py() == int(there != meant), "if equal, the hash is that of the core"


def folded(word: int) -> int:
    product = word * 0x9E3779B185EBCA87
    return (product ^ product >> 64) & (2**64 - 1)


def hash_of(text: bytes, seed: int) -> int:
    """The hash of a text of more than eight bytes."""
    state = seed ^ len(text)
    for at in [*range(0, len(text) - 8, 8), len(text) - 8]:
        state = folded(state ^ int.from_bytes(text[at : at + 8], "little"))
    return state


def colliding(seed: int) -> tuple[bytes, bytes]:
    """Two texts of 16 letters and the like with one hash: the second word of the other makes up for the first."""
    chance, last = random.Random(3), b"abcdefgh"
    state = folded(seed ^ 16 ^ int.from_bytes(b"AAAAAAAA", "little"))
    while True:
        head = bytes(chance.choices(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=8))
        other = folded(seed ^ 16 ^ int.from_bytes(head, "little"))
        tail = (int.from_bytes(last, "little") ^ state ^ other).to_bytes(8, "little")
        if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in tail):
            return b"AAAAAAAA" + last, head + tail


def test_a_column_of_many_texts_stays_without_ids_and_one_of_few_keeps_them() -> None:
    scanner, other = json_scanner(few(3)), csv_scanner(few(3))
    for texts, coded in ((["a", "b"], True), ([None, None], False), (["c", None, "d", "e"], True), (["e"], True)):
        for array in (json_scan(texts, scanner), csv_scan(texts, other)):
            assert pa.types.is_dictionary(array.type) == coded and array.to_pylist() == texts
            assert not coded or array.dictionary.to_pylist() == [text for text in texts if text is not None]
    for texts in (list("abcd"), ["a", "a"]):
        for array in (json_scan(texts, scanner), csv_scan(texts, other)):
            assert array.type == pa.string() and array.to_pylist() == texts


def test_which_columns_have_ids() -> None:
    blob = replace(TEXT, column=replace(TEXT.column, storage=Storage.BLOB))
    routing = replace(TEXT, column=replace(TEXT.column, storage=Storage.NONE), stored=False)
    wanted: list[Target] = [TEXT, blob, routing]
    found = Scanner(wanted, [("v",)] * 3).scan(json_lines(["x", None]))
    assert [pa.types.is_dictionary(array.type) for array in found.columns] == [True, False, True]
    assert [array.to_pylist() for array in found.columns] == [["x", None]] * 3


def test_a_line_in_doubt_leaves_no_row() -> None:
    """Its text may stay in the dictionary, if a field behind it was in doubt."""
    lines = [b'{"v":"bad","w":1.5}', b'{"v":"a","w":1}', b'{"w":2}', b'{"v":null,"w":3}', b'{"v":"bad","w":"x"}']
    found = Scanner([TEXT, target("int", "w")], [("v",), ("w",)]).scan(block([*lines, b'{"v":"b"}', lines[1]]))
    assert found.lines.tolist() == [1, 2, 3, 5, 6]
    assert found.columns[0].to_pylist() == ["a", None, None, "b", "a"]


class Guarded(TextIds):
    """Each buffer exactly as large as it has to be, in memory with a page behind it that may not be touched."""

    areas: ExitStack

    def prepare(self, layout: ColumnLayout, lines: int, size: int) -> None:
        super().prepare(layout, lines, size)
        self.ids, self.ends, self.slots, self.text = (
            self.areas.enter_context(guarded(array))
            for array in (
                self.ids,
                self.ends[: layout.most + 1],
                self.slots[: layout.slot_mask + 1],
                self.text[: layout.room],
            )
        )
        layout.ids, layout.slots = self.ids.ctypes.data, self.slots.ctypes.data
        layout.text_ends, layout.text_bytes = self.ends.ctypes.data, self.text.ctypes.data


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 8, 9, 15, 16, 17, 33])
def test_nothing_is_touched_behind_the_buffers(length: int) -> None:
    """Also where the input ends with a text, and where more texts come than there may be."""
    for distinct in (4, 5):
        texts: Texts = [str(n).zfill(length)[-length:] for n in range(distinct)] * 2
        for last in (False, True):
            with ExitStack() as areas:
                scanner = json_scanner(few(4))
                (column,) = scanner._columns._columns
                json_scan(texts, scanner)  # so that the room is known
                column.ids = Guarded(room=few(4))
                Guarded.areas = areas
                array = json_scan(texts, scanner, escaped=last)
                as_plain(pa.concat_arrays([array]), texts, 4)


@pytest.mark.slow
def test_nothing_is_touched_behind_the_buffers_when_ids_are_given_up() -> None:
    """The text of a record in doubt stands first, so that short ones lie near the end of the room."""
    room = replace(few(2), spare=0)
    given_block = block([b"x" * 20 + b",?", b"b,1", b"c,1"])
    for _ in range(2):
        with ExitStack() as areas:
            options = CsvOptions(header=False, names=("v", "w"))
            scanner = CsvScanner([TEXT, target("int", "w")], ["v", "w"], options, room)
            column = scanner._columns._columns[0]
            column.prepare(len(given_block), len(given_block.data))
            column.ids = Guarded(room=room)
            Guarded.areas = areas
            found = scanner.scan(given_block, 0, last=True, longest=1 << 20, alone=None)
            assert found.columns[0].to_pylist() == ["b", "c"] and column.ids is None


def test_the_layout_of_a_slot_is_that_of_the_core() -> None:
    assert ctypes.sizeof(SlotLayout) == 16 and ctypes.sizeof(ColumnLayout) == 23 * 8
