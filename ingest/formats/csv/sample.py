"""CSV records as they stand: the fields of each by the names of its header, found by the decoder itself."""

from __future__ import annotations

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.formats.csv.csv_records import Field, Header, read_record
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.sample_rows import Quoted
from sparkhaven.ingest.spec.payload_formats import CsvOptions
from sparkhaven.ingest.values.refusals import Value


class CsvRecords(CsvDecoder):
    """A decoder without columns, which keeps the fields of each record that is one: (number, text by name)."""

    def __init__(self, options: CsvOptions) -> None:
        super().__init__((), (), options, compiled=False)
        self.records: list[tuple[int, dict[str, str]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, empty before there is a header."""
        return () if self._header is None else self._header.names

    def values_of(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """No values; the record is kept if it has as many fields as the header."""
        outcome = super().values_of(raw, header, file, number, rejects)
        if not isinstance(outcome, BadRow):
            fields = read_record(raw.decode("utf-8"), self._options.delimiter, self._options.quote)
            texts = map(_text, fields)
            self.records.append((number, dict(zip(header.names, texts, strict=False))))
        return outcome


def _text(field: Field) -> str:
    text, quoted = field
    return Quoted(text) if quoted else text
