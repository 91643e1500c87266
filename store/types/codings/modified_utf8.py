"""Java's modified UTF-8: NUL is ``C0 80``, and a character above U+FFFF is two surrogates of three bytes each."""

from __future__ import annotations

import re

_ABOVE_BMP = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def encode(text: str) -> bytes:
    """The modified UTF-8 bytes of any text, lone surrogates included."""
    if text.isascii():
        plain = text.encode("ascii")
    else:
        plain = _ABOVE_BMP.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    return plain.replace(b"\0", b"\xc0\x80") if b"\0" in plain else plain


def decode(data: bytes) -> str:
    """The text of modified UTF-8 bytes; a ValueError if they are not. Lone surrogates are kept."""
    if data.isascii():
        return data.decode("ascii")
    if max(data) >= 0xF0:
        raise ValueError("a four-byte sequence, which modified UTF-8 does not have")
    text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
