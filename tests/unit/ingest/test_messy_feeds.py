"""Feeds that are not as they should be, each taken by a setting and refused without it; rows come back by requeue."""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.encodings import ENCODINGS, from_utf8, to_utf8, utf8_chunks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec import (
    ColumnSpec,
    CsvOptions,
    Format,
    InternalRule,
    MissingColumns,
    StreamSpec,
    TextForm,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.settings.stream_file import StreamSettings, parse_stream
from sparkhaven.store.errors import FeedError, SchemaMismatchError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.ingest.ingest_cases import PLENTY, decode, decode_split, file_id, schema, stream, values, write
from tests.support.ingest.messages import Fake
from tests.support.ingest.messages import decode as decode_messages

AMONG = 300
TABLE = schema(a="int", b="String")


def in_encoding(encoding: str, form: Format = "csv", **rest: Any) -> StreamSpec:
    """A stream of files in an encoding."""
    made = stream(form=form, **rest)
    assert isinstance(made.feed, FilesOptions)
    return StreamSpec(
        made.stream,
        made.table,
        FilesOptions("/feed", form, made.feed.csv, encoding=encoding),
        made.partition,
        made.columns,
        bad_rows=PLENTY,
    )


def packed(text: str, encoding: str) -> bytes:
    """A file's bytes, with a byte order mark where the encoding has one."""
    return text.encode(ENCODINGS[encoding])


@pytest.mark.parametrize("count", [1, AMONG])
@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name not in ("windows-1251", "windows-1250")])
def test_files_in_other_encodings(tmp_path: Path, encoding: str, count: int) -> None:
    text = "a,b\n" + "1,é\n" * count + 'x,é\n2,"ö\nü"\n3,\u0080\n'.replace("\u0080", "ÿ")
    for name, content in (("a.csv", packed(text, encoding)), ("a.csv.gz", gzip.compress(packed(text, encoding)))):
        routed, rejects = decode(write(tmp_path / name, content), in_encoding(encoding), TABLE)
        assert values(routed, "b") == ["é"] * count + ["ö\nü", "ÿ"]
        (row,) = rejects.rows
        assert (row.line, row.value, row.payload) == (count + 2, "x", packed("x,é", encoding))
        assert row.size == len(row.payload or b"")


def test_utf16_has_line_feeds_inside_of_characters(tmp_path: Path) -> None:
    content = "a,b\n1,\u0a00\u000d\u010a\n2,\u0a0a\n".encode("utf-16-le")
    spec = in_encoding("utf-16le", internal=InternalRule("fixed", "0"))
    routed, rejects = decode(write(tmp_path / "a.csv", content), spec, TABLE)
    assert (values(routed, "b"), rejects.rows) == (["\u0a00\r\u010a", "\u0a0a"], [])


def test_utf16_without_a_mark_is_refused(tmp_path: Path) -> None:
    split = write(tmp_path / "a.csv", "a,b\n1,x\n".encode("utf-16-be"))
    with pytest.raises(FeedError, match="no byte order mark") as caught:
        decode(split, in_encoding("utf-16"), TABLE)
    assert "utf-16be" in str(caught.value.hint)


@pytest.mark.parametrize("count", [1, AMONG])
def test_what_is_no_text_in_its_encoding_is_a_bad_row_in_its_own_bytes(tmp_path: Path, count: int) -> None:
    odd = {
        "windows-1252": [b"1,\x81", b"2,\x8d\xe9"],
        "utf-16le": [b"1\0,\0\x3d\xd8", b"2\0,\0\x00\xde\xe9\0"],
        "utf-16be": [b"\x001\0,\xd8\x3d", b"\x002\0,\xde\x00\0\xe9"],
    }
    for encoding, lines in odd.items():
        feed = "\n".encode(ENCODINGS[encoding])
        good = ["a,b", *["0,é"] * count]
        content = b"".join(packed(line, encoding) + feed for line in good) + b"".join(line + feed for line in lines)
        routed, rejects = decode(write(tmp_path / "a.csv", content + b"9"), in_encoding(encoding), TABLE)
        assert values(routed, "b") == ["é"] * count
        reported = [(row.line, row.explanation, row.payload) for row in rejects.rows]
        last = "wrong number of fields (1)" if encoding == "windows-1252" else f"not {encoding}"
        expected = [(count + 2 + n, f"not {encoding}", line) for n, line in enumerate(lines)]
        assert reported == [*expected, (count + 4, last, b"9")]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(sorted(ENCODINGS)), st.integers(1, 9))
def test_payloads_come_back_as_they_were(data: bytes, encoding: str, size: int) -> None:
    if encoding == "utf-16" and data:
        data = b"\xff\xfe" + data
    if encoding.startswith("utf-16") and len(data) % 2:
        data += b"\0"
    plain = to_utf8(data, encoding)
    assert from_utf8(plain, encoding) == data
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    whole = b"".join(utf8_chunks(chunks, encoding, "f"))
    assert (whole.removeprefix(b"\xef\xbb\xbf") if encoding == "utf-16" else whole) == plain
    try:
        text = data.decode(ENCODINGS[encoding])
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            plain.decode("utf-8")
    else:
        assert plain.decode("utf-8") == text


def again(path: Path, spec: StreamSpec, table: Any, changed: Any = lambda payload: payload) -> tuple[Any, list[Any]]:
    """What comes of a file's rejected rows when they are sent once more, and the payloads of those refused again."""
    kept: list[BadRow] = []
    first = Rejects(spec.bad_rows, sink=kept.extend)
    list(decode_split(Fs(), file_id(path), spec, table, first))
    rows = pa.Table.from_batches([as_batch(kept)]).to_pylist()
    rows = [{**row, "Payload": changed(row["Payload"])} for row in rows]
    rejects = Rejects(PLENTY)
    routed = list(decode_requeued(pa.Table.from_pylist(rows, as_batch(kept).schema), spec, table, rejects))
    return routed, [(row.line, row.explanation, row.payload) for row in rejects.rows]


def test_requeue_of_files_without_a_header_that_lack_a_column(tmp_path: Path) -> None:
    spec = stream(form="csv", csv=CsvOptions(header=False, names=("a",)), missing="null")
    path = tmp_path / "a.csv"
    write(path, "1\nx\n")
    routed, refused = again(path, spec, TABLE, lambda payload: b"2")
    assert (values(routed, "a"), values(routed, "b"), refused) == ([2], [None], [])


@pytest.mark.parametrize(("mended", "stored"), [(b'{"a": 1}', []), (b'{"a": 1, "b": null}', [None])])
def test_requeue_holds_rows_of_parquet_against_the_contract(tmp_path: Path, mended: bytes, stored: list[None]) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    spec = stream(form="parquet", missing="null", contract="discard-row")
    routed, refused = again(tmp_path / "a.parquet", spec, TABLE, lambda payload: mended)
    assert values(routed, "b") == stored
    assert [payload for _, _, payload in refused] == ([] if stored else [mended])


@pytest.mark.parametrize(("missing", "stored"), [("fail", []), ("null", [None])])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_requeue_refuses_a_row_whose_file_would_be_refused(
    tmp_path: Path, form: Format, missing: MissingColumns, stored: list[None]
) -> None:
    """A column got another name since a row was rejected. It is not null where a new file would be refused."""
    path, far = tmp_path / f"a.{form}", 2**40  # no int
    if form == "csv":
        write(path, f"a,b\n{far},u\n")
    else:
        pq.write_table(pa.table({"a": pa.array([far], pa.int64()), "b": ["u"]}), path)
    first = stream(form=form, missing=missing)
    kept: list[BadRow] = []
    list(decode_split(Fs(), file_id(path), first, TABLE, Rejects(PLENTY, sink=kept.extend)))
    kept = [replace(row, payload=(row.payload or b"").replace(str(far).encode(), b"1")) for row in kept]
    renamed, rejects = replace(first, columns=(ColumnSpec("b", source="c"),)), Rejects(PLENTY)
    routed = list(decode_requeued(pa.Table.from_batches([as_batch(kept)]), renamed, TABLE, rejects))
    assert values(routed, "b") == stored
    assert [row.refusal.reason for row in rejects.rows] == ([] if stored else [Reason.ABSENT_FIELD])
    counted = {"b": 1} if stored else {}
    assert (dict(rejects.ignored), dict(rejects.absent)) == (counted, counted)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16be", "utf-8"])
def test_requeue_reads_by_the_same_settings(tmp_path: Path, encoding: str) -> None:
    form = TextForm(trim=True, thousands=",", quoted=True)
    options = CsvOptions(skip_lines=1, comment="#", trailing_delimiter=True, delimiter=";")
    spec = in_encoding(encoding, csv=options)
    columns = (ColumnSpec("a", form=form), ColumnSpec("t", zone="UTC", form=TextForm(pattern="%d.%m.%Y"), far="null"))
    spec = StreamSpec(spec.stream, spec.table, spec.feed, spec.partition, columns, bad_rows=PLENTY)
    text = 'export é\n#\na;b;t;\n 1,000 ;é;01.02.2013;\nx;é;01.02.2013;\n 2,000;é;31.02.2013;\ny;"é\nö";31.12.9999;\n'
    split = write(tmp_path / "a.csv", packed(text, encoding))
    table = schema(a="int", b="String", t="Instant")
    routed, rejects = decode(split, spec, table)
    assert (values(routed, "a"), [row.line for row in rejects.rows]) == ([1000], [5, 6, 7])
    _, refused = again(tmp_path / "a.csv", spec, table)
    assert refused == [(row.line, row.explanation, row.payload) for row in rejects.rows]

    def mend(payload: bytes) -> bytes:
        text = payload.decode(ENCODINGS[encoding]).replace("x", " 3,000").replace("31.02", "28.02").replace("y", "4")
        return packed(text, encoding)

    routed, refused = again(tmp_path / "a.csv", spec, table, mend)
    assert refused == []
    assert (values(routed, "a"), values(routed, "b")) == ([3000, 2000, 4], ["é", "é", "é\nö"])
    assert values(routed, "t")[2] is None


@pytest.mark.parametrize("count", [1, AMONG])
def test_messages_in_other_encodings(count: int) -> None:
    for encoding in ("latin-1", "utf-16"):
        good = [packed('{"s":"é"}', encoding)] * count
        bad = {"latin-1": b'{"s":5,"x":"\xe9"}', "utf-16": b"\xff\xfe{\0"}[encoding]
        messages = [Fake(n, payload) for n, payload in enumerate([*good, bad, None])]
        _, rejects, found = decode_messages(messages, {"s": "String"}, encoding=encoding)
        assert found["s"] == ["é"] * count + [None]
        assert [(row.line, row.payload) for row in rejects.rows] == [(count, bad)]
    nothing, rejects, _ = decode_messages([Fake(0, b"{\0")], {"s": "String"}, encoding="utf-16")
    assert (len(nothing), rejects.rows[0].explanation, rejects.rows[0].payload) == (0, "not utf-16", b"{\0")


def _binary(path: Path, texts: Sequence[bytes | None], kind: pa.DataType) -> Path:
    pq.write_table(pa.table({"a": range(len(texts)), "b": pa.array(texts, kind)}), path, store_schema=False)
    return path


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_parquet_texts_that_are_not_marked_as_such(tmp_path: Path, kind: pa.DataType) -> None:
    texts = ["é".encode(), b"", None, b"\xff", b"x"]
    split = file_id(_binary(tmp_path / "a.parquet", texts, kind))
    plain = stream(form="parquet")
    with pytest.raises(SchemaMismatchError, match="cannot be read") as caught:
        decode(split, plain, TABLE)
    assert "binary_as_text" in str(caught.value.hint)
    spec = StreamSpec(
        plain.stream,
        plain.table,
        FilesOptions("/feed", "parquet", binary_as_text=True),
        plain.partition,
        bad_rows=PLENTY,
    )
    routed, rejects = decode(split, spec, TABLE)
    assert values(routed, "b") == ["é", "", None, "x"]
    assert [(row.line, row.explanation) for row in rejects.rows] == [(4, "not UTF-8 (at byte 0)")]
    with pytest.raises(SchemaMismatchError):  # bytes are no number
        decode(split, spec, schema(b="int"))


def test_parquet_numbers_in_texts_and_far_times(tmp_path: Path) -> None:
    far = pa.array([2**62, 0, -(2**62)], pa.timestamp("us", "UTC"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["1,000", "", "1,00"], "t": far}), path)
    columns = (ColumnSpec("a", form=TextForm(quoted=True, thousands=",")), ColumnSpec("t", far="clamp"))
    routed, rejects = decode(file_id(path), stream(*columns, form="parquet"), schema(a="int", t="Instant"))
    assert (values(routed, "a"), values(routed, "t")) == ([1000, None], [2**63 - 1, 0])
    assert [row.explanation for row in rejects.rows] == ["not a number"]


# --- settings ---------------------------------------------------------------------------------------------------

RIGHT = """
name = "s"
table = "A.B"
schema = "s.schema"
partition = {{ internal = {{ fixed = "0" }}, value = {{ fixed = "2013-01-01" }} }}
[feed]
type = "files"
path = "feed"
{feed}
[columns]
{columns}
"""


def parse(feed: str = "", columns: str = "") -> StreamSettings:
    """The settings of a stream file with these lines."""
    text = RIGHT.format(feed=feed, columns=columns)
    if "kafka" in feed:
        text = text.replace('type = "files"\npath = "feed"', "")
    return parse_stream(tomllib.loads(text), Path("/s.toml"), {})


def test_settings_of_messy_feeds() -> None:
    csv = 'format = "csv"\nencoding = "latin-1"\nskip_lines = 2\ncomment = "#"\nquoted_null = true\n'
    columns = 'a = { trim = true, thousands = ",", quoted = true }\nb = { true = ["1"], false = ["0"] }\n'
    columns += 't = { format = "%Y/%m/%d", zone = "UTC", far = "clamp" }'
    spec = parse(csv + "trailing_delimiter = true", columns).spec
    assert isinstance(spec.feed, FilesOptions)
    assert spec.feed.encoding == "latin-1"
    assert spec.feed.csv == CsvOptions(quoted_null=True, skip_lines=2, comment="#", trailing_delimiter=True)
    assert spec.columns == (
        ColumnSpec("a", form=TextForm(trim=True, quoted=True, thousands=",")),
        ColumnSpec("b", form=TextForm(true=("1",), false=("0",))),
        ColumnSpec("t", zone="UTC", far="clamp", form=TextForm(pattern="%Y/%m/%d")),
    )
    assert parse('format = "parquet"\nbinary_as_text = true').spec.feed.binary_as_text  # type: ignore[attr-defined]
    kafka = 'type = "kafka"\nbootstrap = "h:1"\ntopics = ["t"]\nencoding = "utf-16"'
    assert parse(kafka).spec.feed.encoding == "utf-16"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("feed", "columns", "reported"),
    [
        ('encoding = "latin1"', "", "iso-8859-1"),
        ('format = "parquet"\nencoding = "latin-1"', "", "encoding is set, and format is"),
        ('comment = "#"', "", 'format is not "csv", which these settings are for: comment'),
        ("skip_lines = 1", "", 'format is not "csv", which these settings are for: skip_lines'),
        ('format = "csv"\nskip_lines = -1', "", "skip_lines"),
        ('format = "csv"\ncomment = ""', "", "comment"),
        ('format = "csv"\nskip_line = 1', "", "skip_lines"),
        ("binary_as_text = true", "", 'binary_as_text is set, and format is not "parquet"'),
        ("", 'a = { far = "zero" }', "clamp"),
        ("", 'a = { meta = "line", trim = true }', "meta stands beside"),
        ("", 'a = { thousands = ",," }', "thousands"),
        ("", "a = { true = [] }", "true"),
        ('type = "kafka"\nbootstrap = "h:1"\ntopics = ["t"]\nformat = "raw"\nencoding = "utf-16"', "", "encoding"),
    ],
)
def test_settings_that_are_wrong(feed: str, columns: str, reported: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(feed, columns)
    assert reported in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "item", "reported"),
    [
        ("int", ColumnSpec("v", far="null"), "setting far"),
        ("String", ColumnSpec("v", form=TextForm(quoted=True)), "setting quoted"),
        ("int", ColumnSpec("v", form=TextForm(as_text=True)), "setting as_text"),
        ("String", ColumnSpec("v", form=TextForm(thousands=",")), "setting thousands"),
        ("Instant", ColumnSpec("v", unit="s", form=TextForm(pattern="%Y%m%d")), "setting format"),
        ("Instant", ColumnSpec("v", form=TextForm(pattern="%Y")), "not a date pattern"),
        ("int", ColumnSpec("v", form=TextForm(true=("1",), false=("0",))), "setting true or false"),
        ("Boolean", ColumnSpec("v", form=TextForm(true=("1",))), "lacks texts for true or for false"),
        ("Boolean", ColumnSpec("v", form=TextForm(true=("1",), false=("1",))), "lacks texts for true"),
        ("int", ColumnSpec("v", form=TextForm(thousands=".")), "same mark"),
        ("int", ColumnSpec("v", form=TextForm(thousands="1")), "is not a single mark"),
    ],
)
def test_settings_that_the_column_cannot_have(kind: str, item: ColumnSpec, reported: str) -> None:
    with pytest.raises(SettingsError, match=reported):
        resolve_targets(stream(item), schema(v=kind))


@pytest.mark.parametrize("count", [1, AMONG])
def test_values_that_are_no_strings_as_their_json_text(tmp_path: Path, count: int) -> None:
    spec = stream(ColumnSpec("v", form=TextForm(as_text=True)))
    lines = ['{"v": "x"}', '{"v": 1.50}', '{"v": [1, {"a": null}]}', '{"v": null}', "{}", '{"v": true}', '{"v": "7"}']
    routed, rejects = decode(write(tmp_path / "a.json", lines * count), spec, schema(v="String"))
    assert rejects.bad == 0
    assert values(routed) == ["x", "1.50", '[1, {"a": null}]', None, None, "true", "7"] * count
    routed, rejects = decode(write(tmp_path / "b.json", lines), stream(), schema(v="String"))
    assert rejects.bad == 3
