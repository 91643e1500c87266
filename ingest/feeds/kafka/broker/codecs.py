"""Compressed records of a batch to plain ones. What is unpacked is bounded: nobody believes the sizes that are said."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

MOST = 512 << 20  # bytes of one batch
_PIECE = 1 << 20
_XERIAL, _XERIAL_HEAD = b"\x82SNAPPY\x00", 16  # magic, and two versions of four bytes


class CompressionError(ValueError):
    """Bytes that cannot be unpacked."""


def unpacked(codec: int, data: memoryview, most: int = MOST) -> bytes:
    """The records of a batch. CompressionError, also for more than ``most`` bytes and another codec."""
    unpack = _CODECS.get(codec)
    if unpack is None:
        raise CompressionError(f"they have compression {codec}, which is not known here")
    try:
        octets = unpack(data, most)
    except (pa.ArrowException, OSError, zlib.error, EOFError) as error:
        raise CompressionError(f"they cannot be unpacked: {error}") from None
    if len(octets) > most:
        raise CompressionError(f"they are more than {most:,} bytes when unpacked")
    return octets


def _gzip(data: memoryview, most: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    octets = unpacker.decompress(data, most + 1)
    if not unpacker.eof and len(octets) <= most:
        raise EOFError("they are cut short")
    return octets


def _stream(name: str) -> Callable[[memoryview, int], bytes]:
    def unpack(data: memoryview, most: int) -> bytes:
        pieces, size = [], 0
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
            while size <= most and (piece := stream.read(max(_PIECE, size))):
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    return unpack


def _snappy(data: memoryview, most: int) -> bytes:
    if data[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(data, most)
    blocks, left = [], most
    for block in _xerial_blocks(data[_XERIAL_HEAD:]):
        blocks.append(_snappy_block(block, left))
        left -= len(blocks[-1])
    return b"".join(blocks)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Blocks of xerial's frames, as Java's clients write them."""
    while data:
        size = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < 4 or not 0 < size <= len(data) - 4:
            raise EOFError("a block of snappy is cut short")
        yield data[4 : 4 + size]
        data = data[4 + size :]


def _snappy_block(data: memoryview, most: int) -> bytes:
    size = 0
    for number, octet in enumerate(data[:5]):
        size |= (octet & 0x7F) << (7 * number)
        if octet < 0x80:
            break
    else:
        raise EOFError("a block of snappy has no size")
    if size > most:
        raise CompressionError(f"they are more than {most:,} bytes when unpacked")
    octets: bytes = _SNAPPY.decompress(data, size, asbytes=True)
    return octets


_SNAPPY = pa.Codec("snappy")
_CODECS: dict[int, Callable[[memoryview, int], bytes]] = {
    1: _gzip,
    2: _snappy,
    3: _stream("lz4"),
    4: _stream("zstd"),
}
