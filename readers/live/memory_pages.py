"""Hands pages of numbers to an engine as they lie in mapped memory, by a small class that it compiles at its start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

SOURCE = Path(__file__).with_name("Pages.java")
KINDS = {  # Arrow type -> the engine's kind of chunk and type of column
    pa.int8(): ("Byte", "byte"),
    pa.uint16(): ("Char", "char"),
    pa.int16(): ("Short", "short"),
    pa.int32(): ("Int", "int"),
    pa.int64(): ("Long", "long"),
    pa.float32(): ("Float", "float"),
    pa.float64(): ("Double", "double"),
    pa.timestamp("ns", "UTC"): ("Long", "java.time.Instant"),
}


def compiled(context: Any, name: str, text: str) -> Any:
    """A class of Java, compiled by an engine; ``context`` is its execution context. RuntimeError: it is refused."""
    import jpy

    request = jpy.get_type("io.deephaven.engine.context.QueryCompilerRequest").builder()
    request.description(f"{name} of mapped files").className(name).packageNameRoot("sparkhaven").classBody(text)
    return context.j_exec_ctx.getQueryCompiler().compile(request.build())


class PageReaders:
    """The readers of an engine's table service; ``factory`` is what the service is made with."""

    def __init__(self, context: Any) -> None:
        """``context`` is the engine's execution context, whose compiler is used."""
        import jpy

        java_class = compiled(context, "Pages", SOURCE.read_text(encoding="utf-8"))
        self.factory: Any = java_class.getDeclaredConstructor().newInstance()
        self._buffer = jpy.byte_buffer

    def give(self, page: pa.Table, take: Callable[[pa.Table], None]) -> None:
        """Calls ``take`` with a page of one column: numbers without a validity bitmap as rows without bytes, whose
        values the engine finds in the page's own memory; any other page as it is."""
        (field,), (values,) = page.schema, page.column(0).chunks
        kind = KINDS.get(field.type)
        if kind is None or not len(values) or values.buffers()[0] is not None:
            take(page)
            return
        width = field.type.byte_width
        memory = values.buffers()[1].slice(values.offset * width, len(values) * width)
        self.factory.put(kind[0], self._buffer(memory), len(values))
        bare = pa.schema([pa.field(field.name, pa.null(), metadata={"deephaven:type": kind[1]})])
        take(pa.Table.from_arrays([pa.nulls(len(values))], schema=bare))
