"""Documents of any shape: kept byte for byte, edited only where asked, refused only with a code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.schema.xml_tree import parse_document
from tests.support.places import REPOSITORY
from tests.support.tables.xml_trees import walk

EXAMPLES = [p.read_bytes() for p in sorted((REPOSITORY / "conf" / "schemas").glob("*.schema"))]
SPACE = st.sampled_from([" ", "\n", "\t", "  \r\n ", "\r"])
NAMES = st.sampled_from(["Column", "a", "Überschrift", "x.y-z", "Partitions"])
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8)


def escaped(value: str, quote: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;")
    return value.replace(quote, "&#34;" if quote == '"' else "&#39;")


@st.composite
def elements(draw: st.DrawFn, depth: int = 2) -> str:
    name = draw(NAMES)
    names = draw(st.lists(st.sampled_from(["name", "dataType", "é", "keyFormula", "q"]), unique=True, max_size=3))
    tag = f"<{name}"
    for attribute in names:
        quote = draw(st.sampled_from("\"'"))
        value = escaped(draw(TEXT), quote)
        tag += f"{draw(SPACE)}{attribute}{draw(st.sampled_from(['=', ' = ']))}{quote}{value}{quote}"
    if draw(st.booleans()):
        return f"{tag}{draw(st.sampled_from(['', ' ']))}/>"
    parts = [st.just("<!-- > ' \" <a/> -->"), st.just("<![CDATA[<b c='>']]>"), st.just("text &gt; "), SPACE]
    inner = draw(st.lists(st.one_of(*parts, *([elements(depth - 1)] if depth else [])), max_size=3))
    return f"{tag}>{''.join(inner)}</{name}{draw(st.sampled_from(['', ' ']))}>"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    body = "".join(draw(st.lists(st.one_of(elements(), SPACE), max_size=4)))
    head = draw(st.sampled_from(["", '<?xml version="1.0"?>', "<!-- first -->\r\n"]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    date = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    table = f'<Table namespace="N" storageType="NestedPartitionedOnDisk"\nname="T">{body}{date}</Table>'
    return mark + f"{head}{table}{draw(SPACE)}<!-- last -->".encode()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(documents())
def test_what_is_not_changed_stays(data: bytes) -> None:
    document = parse_document(data)
    assert document.with_text(document.text) == data
    try:
        assert parse_schema(data, "N.T.schema").to_bytes() == data
    except SchemaParseError as error:
        assert error.code.startswith("E1")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(documents(), TEXT, st.data())
def test_an_edit_changes_one_attribute_and_nothing_else(data: bytes, value: str, draw: st.DataObject) -> None:
    value += "\n\t\r<&\"'>"
    document = parse_document(data)
    every = list(walk(document.root))
    number = draw.draw(st.integers(0, len(every) - 1))
    element = every[number]
    attribute = draw.draw(st.sampled_from(["added", *element.attributes]))
    edited = parse_document(document.set_attribute(element, attribute, value))
    after = list(walk(edited.root))
    assert len(after) == len(every)
    for index, (old, new) in enumerate(zip(every, after, strict=True)):
        wanted = {**old.attributes, attribute: value} if index == number else old.attributes
        assert (new.name, new.attributes) == (old.name, wanted)
    start, stop = after[number].spans[attribute]
    if attribute in element.spans:
        first, last = element.spans[attribute]
        assert document.text[:first] + document.text[last:] == edited.text[:start] + edited.text[stop:]
    else:
        extra = f" {attribute}=" + '"'
        assert document.text == edited.text[: start - len(extra)] + edited.text[stop + 1 :]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(documents())
def test_spans_of_elements_are_elements(data: bytes) -> None:
    document = parse_document(data)
    for element in walk(document.root):
        text = document.text[element.start : element.stop]
        again = parse_document(text.encode())
        assert (again.root.name, again.root.attributes) == (element.name, element.attributes)
        lines = document.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert lines[element.line - 1][element.column - 1 :].startswith(f"<{element.name}")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_damage_gives_a_code_or_a_schema(data: bytes, draw: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(broken) - 1))
        change = draw.draw(st.sampled_from(["flip", "cut", "double"]))
        if change == "flip":
            broken[at] ^= 1 << draw.draw(st.integers(0, 7))
        elif change == "cut":
            del broken[at : at + draw.draw(st.integers(1, 40))]
        else:
            broken[at:at] = broken[at : at + draw.draw(st.integers(1, 200))]
        if not broken:
            broken = bytearray(b" ")
    try:
        file = parse_schema(bytes(broken), "Ns.Tab.schema")
    except SchemaParseError as error:
        assert error.code in {f.code for f in error.findings}
        assert all(f.line >= 1 and f.column >= 1 for f in error.findings)
    else:
        assert file.to_bytes() == bytes(broken)
        assert file.schema.partitioning is not None
