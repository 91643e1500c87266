"""Settings of ``[columns]`` on columns whose type has a codec: they work, or the stream is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.spec import ColumnSpec, TextForm
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.errors import SettingsError
from tests.support.ingest.ingest_cases import decode, schema, stream, values, write

DAY = dt.date(2024, 2, 29)
WORKS: list[tuple[str, TextForm, dict[str, Any]]] = [
    ("LocalDate", TextForm(pattern="%d.%m.%Y"), {"29.02.2024": DAY, "29.2.2024": DAY, "30.02.2024": 0}),
    ("LocalDate", TextForm(trim=True), {" 2024-02-29\t": DAY, "  ": None, "2024 -02-29": 0}),
    ("LocalTime", TextForm(trim=True), {" 13:30 ": 48_600 * 10**9}),
    ("BigDecimal 8,2", TextForm(thousands=",", trim=True), {"1,234.50": Decimal("1234.50"), "12,34": 0}),
    ("BigDecimal 8,2", TextForm(thousands=".", decimal=","), {"1.234,5": Decimal("1234.50"), "1,5": Decimal("1.50")}),
    ("BigInteger 9", TextForm(quoted=True, thousands="'"), {"1'234": Decimal(1234), "1.5": 0}),
    ("byte[] SimpleByteArrayCodec", TextForm(trim=True), {" AQI= ": b"\x01\x02"}),
    ("char", TextForm(trim=True), {" A\t": ord("A"), "": None, " ": None, "AB": 0}),
]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("case", range(len(WORKS)))
def test_a_setting_works_in_texts(tmp_path: Path, case: int, form: str) -> None:
    kind, text_form, cases = WORKS[case]
    table, spec = schema(n="int", v=kind), stream(ColumnSpec("v", form=text_form), form=form)  # type: ignore[arg-type]
    if form == "csv":
        content: Any = "n,v\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(cases))
    else:
        content = [{"n": number, "v": text} for number, text in enumerate(cases)]
    routed, rejects = decode(write(tmp_path / f"a.{form}", content), spec, table)
    taken = dict(zip(values(routed, "n"), _plain(routed), strict=True))
    assert taken == {number: value for number, value in enumerate(cases.values()) if value != 0}
    assert len(rejects.rows) == list(cases.values()).count(0)


def _plain(routed: list[Any]) -> list[Any]:
    arrays = [part.batch.column("v") for part in routed]
    return [
        v for array in arrays for v in (array.view("int64") if str(array.type) == "time64[ns]" else array).to_pylist()
    ]


def test_quoted_numbers_of_json_that_are_empty_are_null(tmp_path: Path) -> None:
    spec = stream(ColumnSpec("v", form=TextForm(quoted=True)))
    lines = ['{"v":""}', '{"v":"1.5"}', '{"v":1.25}']
    routed, rejects = decode(write(tmp_path / "a.json", lines), spec, schema(v="BigDecimal 8,2"))
    assert (values(routed), rejects.bad) == ([None, Decimal("1.50"), Decimal("1.25")], 0)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("LocalDate", {"form": TextForm(pattern="%d.%m.%Y %H:%M")}),
    ("LocalDate", {"form": TextForm(quoted=True)}),
    ("LocalDate", {"form": TextForm(as_text=True)}),
    ("LocalDate", {"zone": "UTC"}),
    ("LocalTime", {"unit": "d"}),
    ("LocalTime", {"form": TextForm(pattern="%Y-%m-%d")}),
    ("BigDecimal 8,2", {"lossy": True}),
    ("BigDecimal 8,2", {"form": TextForm(true=("1",), false=("0",))}),
    ("BigInteger", {"far": "clamp"}),
    ("double[]", {"lossy": True}),
    ("double[]", {"form": TextForm(trim=True)}),
    ("String[]", {"form": TextForm(as_text=True)}),
    ("StringSet", {"form": TextForm(trim=True)}),
    ("java.util.Map", {"form": TextForm(quoted=True)}),
    ("byte[] ByteArrayCodec 4", {"form": TextForm(thousands=",")}),
]


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[f"{kind} {given}" for kind, given in REFUSED])
def test_a_setting_that_would_do_nothing_is_refused(case: int) -> None:
    kind, given = REFUSED[case]
    with pytest.raises(SettingsError, match="column v"):
        resolve_targets(stream(ColumnSpec("v", **given)), schema(v=kind))
