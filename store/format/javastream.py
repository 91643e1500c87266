"""Java object streams as plain data: one door to the reader, the writer and the values."""

from __future__ import annotations

from store.format.javareader import MAX_DEPTH, Reader, loads
from store.format.javavalues import (
    Block,
    Descriptor,
    JArray,
    JByte,
    JChar,
    JClass,
    JDouble,
    JFloat,
    JInt,
    JLong,
    JMap,
    JNumbers,
    JObject,
    JShort,
)
from store.format.javawriter import STREAM_HEADER, Writer, dumps

__all__ = [
    "MAX_DEPTH",
    "STREAM_HEADER",
    "Block",
    "Descriptor",
    "JArray",
    "JByte",
    "JChar",
    "JClass",
    "JDouble",
    "JFloat",
    "JInt",
    "JLong",
    "JMap",
    "JNumbers",
    "JObject",
    "JShort",
    "Reader",
    "Writer",
    "dumps",
    "loads",
]
