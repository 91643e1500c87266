"""Messages of schemas: deployments, changes of columns, partition rules, samples."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from sparkhaven.jobs.dataframes.source_writers import _only_append
from sparkhaven.store.merges.merge_records import newest, store_record
from sparkhaven.store.schema.deployed.deploy import load_history
from sparkhaven.store.schema.deployed.history import Version, encode_history
from tests.support.hints.story import ADD, DATES, MERGED, SAME, TRUNCATE, VALIDATE, Story, Words, do
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import COLUMNS, TABLE, schema

WITHOUT_C = {name: kind for name, kind in COLUMNS.items() if name != "C"}
RENAMED = {"A": "long", "N": "String", "C": "double"}
THEN_DEPLOY = "7, then run `sparkhaven schema deploy FILE7`"
REWRITE = ("rewrite-column", TABLE, *DATES)


def start_with(columns: dict[str, str], site: Dated) -> Words:
    site.write(schema(columns))
    return "ingest", str(site.base / "s.toml"), "--once", "--local"


def deploy(columns: dict[str, str], site: Dated, *words: str) -> Words:
    site.write(schema(columns))
    return "schema", "deploy", str(site.file), *words


def other_rule(site: Dated) -> Words:
    file = site.base / "s.toml"
    file.write_text(file.read_text().replace(f'fixed = "{OLD}"', 'fixed = "2020-01-04"'))
    return "ingest", str(file), "--once", "--local"


def retired(site: Dated) -> Words:
    """A schema without C, as an earlier release deployed it at a start: no command dropped the column."""
    text = schema(WITHOUT_C).encode()
    history = load_history(site.place)
    columns = tuple(column for column in history[-1].columns if column.name != "C")
    site.place.schema_history.write_bytes(encode_history([*history, Version(2, sha256(text).hexdigest(), columns)]))
    site.place.schema.write_bytes(text)
    return "merge", TABLE, *DATES, "--local"


def merged_without(site: Dated) -> Words:
    """A merge of an earlier release, whose record has no word of the column that it lost."""
    site.do(*deploy(WITHOUT_C, site, "--drop", "C"))
    site.do("merge", TABLE, *DATES, "--local")
    record = newest(site.place, OLD)
    assert record is not None
    store_record(site.place, replace(record, column_drops=()))
    return TRUNCATE


def version_without_file(site: Dated) -> Words:
    first, *_ = load_history(site.place)
    site.do(*deploy(WITHOUT_C, site, "--drop", "C"))
    newer = load_history(site.place)[-1]
    site.place.schema_history.write_bytes(encode_history([replace(first, text=None), newer]))
    site.write(schema())
    return "schema", "deploy", TABLE, "--restore", "1"


def narrow(site: Dated) -> Words:
    do(site, *deploy({**COLUMNS, "D": "int"}, site))
    for words in MERGED:
        do(site, *words)
    return *REWRITE, "--retype", "D=long", "--local"


def rejected(site: Dated) -> Words:
    site.put({"A": "no number", "B": "x", "C": 0.5})
    return "ingest", str(site.base / "s.toml"), "--once", "--local"


def requeue_of_no_file(site: Dated) -> Words:
    site.put({"A": "no number", "B": "x", "C": 0.5})
    site.ingest()
    return "quarantine", "requeue", TABLE, "s", "--from", str(site.base / "none.jsonl")


STORIES = {
    "a file without a column": Story(
        "sparkhaven schema deploy 7", lambda site: start_with(WITHOUT_C, site), again=SAME
    ),
    "deploy without a column": Story("sparkhaven schema deploy 7", lambda site: deploy(WITHOUT_C, site), again=SAME),
    "another type": Story(
        "then it is a new column, and this one is dropped",
        lambda site: deploy({**COLUMNS, "C": "String"}, site),
        by_hand=lambda site: site.write(schema({**WITHOUT_C, "D": "String"})),
        again=SAME,
    ),
    "another partition rule": Story("put the rule back, or accept the new one", other_rule, again=SAME),
    "a schema version that is none": Story(
        "`sparkhaven schema history 7` lists them", ("schema", "deploy", TABLE, "--restore", "99")
    ),
    "a version without its file": Story("` takes the file", version_without_file),
    "rewrite of a column that is none": Story(
        THEN_DEPLOY,
        (*REWRITE, "--set", "D=A", "--local"),
        MERGED,
        by_hand=lambda site: site.write(schema({**COLUMNS, "D": "long"})),
        again=SAME,
    ),
    "drop of a column that is there": Story(
        THEN_DEPLOY,
        (*REWRITE, "--drop", "C", "--local"),
        MERGED,
        by_hand=lambda site: site.write(schema(WITHOUT_C)),
        again=SAME,
    ),
    "drop of a column that is none": Story("lists the columns there were", (*REWRITE, "--drop", "Nope"), MERGED),
    "a rename that is not deployed": Story(
        THEN_DEPLOY,
        (*REWRITE, "--rename", "B=N", "--local"),
        MERGED,
        by_hand=lambda site: site.write(schema(RENAMED)),
        again=SAME,
    ),
    "a type that is not deployed": Story(
        THEN_DEPLOY,
        narrow,
        by_hand=lambda site: site.write(schema({**COLUMNS, "D": "long"})),
        again=SAME,
    ),
    "columns that nobody dropped": Story("to keep them, restore a version", retired, (ADD,), again=SAME),
    "a merge that lost a column": Story(
        "To lose them, run `sparkhaven schema deploy 7 7`. Then run", merged_without, (ADD,), again=VALIDATE
    ),
    "rows that are rejected": Story(", see `sparkhaven quarantine list 7 7`", rejected),
    "rows of no file": Story("--json` writes one", requeue_of_no_file),
    "a write that overwrites": Story("to remove rows, see", lambda _: str(_only_append("append", "overwrite"))),
}
