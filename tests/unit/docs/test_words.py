"""What users read is written in short sentences and plain words, and the lint for that sees what is not."""

from __future__ import annotations

import pytest

from tools.docs.words import LONGEST, docstring_prose, faults, sentences, texts


def test_what_users_read_is_plain() -> None:
    wrong = [f"{name}: {line}" for name, text in texts() for line in faults(text)]
    assert wrong == []


def test_pages_help_and_docstrings_are_all_read() -> None:
    names = {name for name, _ in texts()}
    assert {"README.md", "docs/howto/kafka.md", "docs/tutorial/own-topic.md", "docs/howto/feeds.md"} <= names
    assert {"help of sparkhaven ingest", "help of sparkhaven schema infer --table"} <= names
    assert {"readers/arrow/snapshot.py Snapshot", "jobs/dataframes/frames.py read_frame"} <= names
    assert len(names) > 200


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("word " * (LONGEST + 1) + ".", "26 words"),
        ("| a | " + "word " * (LONGEST + 1) + "|", "26 words"),
        ("* One.\n* " + "word " * (LONGEST + 1), "26 words"),
        ("This is one thought; this is another.", "chain"),
        ("A list: of this: and that.", "chain"),
        ("A run is as far as the date in it that is least far.", "'least far', better 'least advanced'"),
        ("Rows are parked, unless told otherwise.", "'parked'"),
    ],
)
def test_faults_are_seen(text: str, fault: str) -> None:
    assert any(line.startswith(fault) for line in faults(text))


@pytest.mark.parametrize(
    "text",
    [
        "word " * LONGEST + ".",
        ("word " * 20 + ". Next ") * 3,
        "```sh\n" + "word " * 50 + "; a; b\n```",
        "| " + "word " * 20 + "| " + "word " * 20 + "|",
        "A `very; long: code; with words` and a [link](https://a.b/c;d).",
    ],
)
def test_what_is_plain_is_left_alone(text: str) -> None:
    assert faults(text) == []


def test_sentences_end_at_full_stops_items_and_cells() -> None:
    assert list(sentences("# Head\n\nOne. Two `a. B` more.\n\n* Three\n* four\n\n| five | six |")) == [
        "Head",
        "One.",
        "Two Code more.",
        "Three",
        "four",
        "five",
        "six",
    ]


def test_each_part_of_a_docstring_is_a_text_of_its_own() -> None:
    sections = "Args:\n    root: One; two.\n    **options: Three.\n\nReturns:\n    Rows.\n\nExample:\n    >>> a: b: c\n"
    prose = docstring_prose(f"Reads a table.\n\n{sections}")
    assert [*sentences(prose)] == ["Reads a table.", "One; two.", "Three.", "Rows."]
    assert faults(prose) == ["chain: One; two."]
