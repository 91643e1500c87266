"""Fields of Kafka's requests and answers, one behind the other. Numbers are big endian.

Newer versions are ``flexible``: lengths are numbers of seven bits a byte and one too large, and structures end with
tagged fields, of which we write none and pass over those that come. The types are documented at
https://kafka.apache.org/protocol#protocol_types
"""

from __future__ import annotations

from struct import Struct, error

_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
ID_BYTES = 16  # of a topic


class AnswerError(ValueError):
    """An answer that is not what the protocol says."""


class Writer:
    """The bytes of a request."""

    def __init__(self, *, flexible: bool) -> None:
        self._parts, self._flexible = bytearray(), flexible

    def int8(self, number: int) -> Writer:
        self._parts += _INT8.pack(number)
        return self

    def int16(self, number: int) -> Writer:
        self._parts += _INT16.pack(number)
        return self

    def int32(self, *numbers: int) -> Writer:
        for number in numbers:
            self._parts += _INT32.pack(number)
        return self

    def int64(self, *numbers: int) -> Writer:
        for number in numbers:
            self._parts += _INT64.pack(number)
        return self

    def octets(self, octets: bytes) -> Writer:
        """Bytes whose number is known."""
        self._parts += octets
        return self

    def text(self, text: str) -> Writer:
        octets = text.encode()
        return (self._compact(len(octets)) if self._flexible else self.int16(len(octets))).octets(octets)

    def count(self, number: int) -> Writer:
        """How many elements follow."""
        return self._compact(number) if self._flexible else self.int32(number)

    def tags(self) -> Writer:
        """The end of a structure."""
        if self._flexible:
            self._parts.append(0)
        return self

    def bytes(self) -> bytes:
        return bytes(self._parts)

    def _compact(self, number: int) -> Writer:
        number += 1
        while number >= 0x80:
            self._parts.append(number & 0x7F | 0x80)
            number >>= 7
        self._parts.append(number)
        return self


class Answer:
    """The bytes of an answer, from ``position`` on. AnswerError where a field is not whole."""

    def __init__(self, data: memoryview, *, flexible: bool, position: int = 0) -> None:
        self.data, self._flexible, self.position = data, flexible, position

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def octets(self, count: int) -> bytes:
        start = self.position
        self.skip(count)
        return bytes(self.data[start : self.position])

    def text(self) -> str:
        """A text; empty where there is none."""
        count = self._compact() - 1 if self._flexible else self.int16()
        try:
            return self.octets(max(0, count)).decode()
        except UnicodeDecodeError as failed:
            raise AnswerError(f"a text is not UTF-8: {failed}") from None

    def elements(self, least: int = 1) -> range:
        """As many as follow, each of ``least`` bytes or more; none where there is no list."""
        count = self._count()
        if count * least > len(self.data) - self.position:
            raise AnswerError(f"{count} elements in {len(self.data) - self.position} bytes")
        return range(count)

    def block(self) -> tuple[int, int]:
        """Where bytes begin and end, which are passed over; the same twice where there are none."""
        count, start = max(0, self._count()), self.position
        self.skip(count)
        return start, self.position

    def tags(self) -> None:
        """The end of a structure."""
        if self._flexible:
            for _ in range(self._compact()):
                self._compact()
                self.skip(self._compact())

    def skip(self, count: int) -> None:
        if not 0 <= count <= len(self.data) - self.position:
            raise AnswerError(f"{count} bytes at {self.position} of {len(self.data)}")
        self.position += count

    def _count(self) -> int:
        return self._compact() - 1 if self._flexible else self.int32()

    def _number(self, kind: Struct) -> int:
        try:
            (number,) = kind.unpack_from(self.data, self.position)
        except error:
            raise AnswerError(f"a number of {kind.size} bytes at {self.position} of {len(self.data)}") from None
        self.position += kind.size
        return int(number)

    def _compact(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            octet = self.int8()
            number |= (octet & 0x7F) << shift
            if octet >= 0:
                return number
        raise AnswerError(f"a length of more than five bytes before {self.position}")
