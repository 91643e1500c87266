"""What messages tell a person to run next, where several of them say the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

RECOVER = "run `sparkhaven recover`"
TABLES = "`sparkhaven tables` lists the tables"
_INTRADAY = re.compile(r"/Intraday/([^/]+)/([^/]+)/[^./][^/]*/[^/]+/")
_INDEX = re.compile(r"/Systems/([^/]+)/MetadataIndex/([^./]+)\.tlmi")
_MERGES = re.compile(r"/Systems/([^/]+)/MetadataIndex/\.([^/]+)\.merges/([^/]+)")
_HISTORY = re.compile(r"/Systems/([^/]+)/Partitions/[^/]+/([^/]+)/([A-Za-z_][A-Za-z0-9_]*)")


def merge(table: object, value: str) -> str:
    """The merge of a date, as a command."""
    return f"sparkhaven merge {table} --dates {value}"


def merge_again(table: object, value: str) -> str:
    """The merge that reads all rows of a date again."""
    return f"sparkhaven merge {table} --dates {value} --rewrite"


def merge_again_at(where: object) -> str:
    """The same for a file of history, by its path."""
    named = date_of(where)
    return "merge the date again with --rewrite" if named is None else f"run `{merge_again(*named)}`"


def date_of(where: object) -> tuple[str, str] | None:
    """The table and the date of a file of history or of a merge record, by its path; None for another file."""
    if (file := _HISTORY.search(str(where))) is not None:
        return f"{file[1]}.{file[3]}", file[2]
    record = _MERGES.search(str(where))
    return None if record is None else (f"{record[1]}.{record[2]}", record[3])


def damaged(where: object) -> str:
    """What to do about a damaged file, by its path: a location of history, one of intraday, or another file."""
    return mended(where) or "restore the file from a copy. `sparkhaven verify --deep` lists all that is damaged"


def mended(where: object) -> str | None:
    """What mends a damaged file of a location or a location index, by its path; None for another file."""
    if (index := _INDEX.search(str(where))) is not None:
        return index_again(f"{index[1]}.{index[2]}")
    if _HISTORY.search(str(where)) is not None:
        return f"restore the file from a copy. While intraday has all rows of the date, {merge_again_at(where)}"
    if (intraday := _INTRADAY.search(str(where))) is not None:
        return (
            "restore the file from a copy, or go back to an epoch before the damage:"
            f" `sparkhaven epochs rollback {intraday[1]}.{intraday[2]} NAME --to N`, with the name of the stream"
        )
    return None


def index_again(table: object) -> str:
    """Writes the location index of a table again, from its merge records."""
    return f"`sparkhaven metadata update {table}` writes the index again"


def truncate(table: object, value: str) -> str:
    """The truncate of a date, as a command."""
    return f"sparkhaven truncate {table} --dates {value}"


def merged_dates(table: object) -> str:
    """Where a date has no history."""
    return f"`sparkhaven merge --status {table}` lists the dates"


def what_is_there(table: object) -> str:
    """Where a table has no such date or source."""
    return f"`sparkhaven stats {table}` lists what is there"


def streams(table: object) -> str:
    """Where a table has another number of streams, or no such stream."""
    return f"`sparkhaven stats {table}` lists the streams with their epochs"


def kept_epochs(table: object, stream: str) -> str:
    """Where an epoch is not kept."""
    return f"`sparkhaven epochs list {table} {stream}` shows the kept ones"


def read(table: object) -> str:
    """Where another reader cannot show a table."""
    return f"`sparkhaven read {table}` reads the table"


def tree_again(table: object, values: Iterable[str]) -> str:
    """Writes the tree beside history of these dates again. The oldest date is named: the one that is surely closed."""
    values = [*values]
    if not values:
        return "merge a date: that writes the tree from history, which has no date yet"
    return f"run `sparkhaven merge {table} --dates {min(values)} --allow-empty`, which writes it again from history"


def restore_log(table: object, stream: str, log: Path) -> str:
    """Where the files of a stream are older than others that name it, or missing."""
    return (
        f"stop the stream. Restore {log.name} with its .checkpoint and .removals from the newest copy of {log.parent}."
        f" Without one, `sparkhaven recover {table} {stream} --from-locations` rebuilds the log. With --dry-run it says"
        " what it would do. Nothing was changed or deleted"
    )
