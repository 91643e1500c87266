"""The catalogue of findings: every code that a command gives, what it means, and what to do.

A code that begins with E is an error: data are lost or wrong, or something does not work. With W it is a warning: reads
are right, and something is out of place. With N it is a note: harmless, or worth knowing. Codes of one number are one
state, more or less severe. Codes of schema files (E101 to E161) stand in ``store.schema.findings``.

``docs/reference/findings.md`` is made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sparkhaven.store import next_steps

Severity = Literal["error", "warning", "note"]
SEVERITIES: Mapping[str, Severity] = {"E": "error", "W": "warning", "N": "note"}


def severity_of(code: str) -> Severity:
    """The severity that the first letter of a code tells."""
    return SEVERITIES[code[0]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One code. ``what``: the sentence of the finding. ``means``: what it has to do with rows. ``todo``: what to do.

    ``todo`` has the places that a finding fills: ``{table}``, ``{date}``, ``{path}``, ``{command}`` and others. A
    finding may have a sentence, and a thing to do, of its own.
    """

    what: str
    means: str
    todo: str = ""


_RESTORE, _REMERGE = "{restore}", "{remerge}"
GENERALLY = {
    "restore": "restore the file from a copy, or roll the stream back to an epoch before the damage",
    "remerge": next_steps.merge_again_at(None),
    "again": "merge a date of the table, which writes the tree again from history",
    "command": "run the command that the finding names",
}
"""What places say where no path tells the table and the date."""
_RECOVER = next_steps.RECOVER
_REINDEX = next_steps.index_again("{table}")
_INSPECT = "`sparkhaven inspect {path}` shows it. Then remove it"
_ADOPT = "`sparkhaven dates adopt {table} --dates {date}` writes a merge record for it"
_NEXT = GENERALLY["command"]

FILES: dict[str, Entry] = {
    "E201": Entry("file is damaged", "The content contradicts itself, its checksum or its place.", _RESTORE),
    "E202": Entry("cannot be read", "The system refuses to read the file.", "check permissions and the disk"),
    "E203": Entry("a committed file is missing", "A record names the file, and rows need it.", _RESTORE),
    "E204": Entry("file is shorter than its committed length", "The last committed bytes are lost.", _RESTORE),
    "E205": Entry(
        "checksum does not match. Committed bytes have changed", "Reads may give other values than committed.", _RESTORE
    ),
    "E206": Entry("file is longer than its record says", "The file is not the one that was written.", _REMERGE),
    "W206": Entry(
        "uncommitted tail: readers ignore it, the next recovery truncates it",
        "A batch runs, or was interrupted before its commit.",
        f"{_RECOVER} if no stream is running",
    ),
    "W207": Entry(
        "file that no epoch has committed",
        "No record names the file. Readers ignore it.",
        _INSPECT,
    ),
    "N208": Entry(
        "left over from an interrupted replace",
        "A process was killed while it replaced a file.",
        _INSPECT,
    ),
    "N209": Entry("the running stream is writing it", "The file is incomplete until it is renamed."),
    "N210": Entry("neither its name nor its first bytes are those of a database file", "`inspect` cannot decode it."),
    "N212": Entry(
        "the prefix has keys that readers ignore",
        "Another program wrote the file.",
        "nothing, if another program wrote the file. A merge writes the date without it",
    ),
    "N213": Entry(
        "the data are in the other byte order",
        "Another program wrote the file. Readers read it.",
        "nothing, if another program wrote the file. A merge writes the date without it",
    ),
    "N214": Entry(
        "no table.size beside the file names its committed length. The whole file is shown",
        "What `inspect` shows may be more than was committed.",
        "`sparkhaven verify` compares the file with the commit log",
    ),
    "N215": Entry(
        "no definition beside the file names its codec. Values are shown as bytes",
        "`inspect` shows bytes, and checks no values.",
        "`sparkhaven verify --deep` checks the values",
    ),
    "W216": Entry(
        "byte order and charset are unknown",
        "The column file beside it cannot be read. `inspect` assumes the usual ones.",
        "inspect the `.dat` beside it, which says what is wrong",
    ),
    "W217": Entry("last row is incomplete", "The file ends inside of a row.", _RESTORE),
    "W218": Entry("lock file has content", "Another program wrote to it. Locks work."),
    "N219": Entry("lock was never taken, or its owner could not write its name", "Nothing depends on it."),
}
LOCATIONS: dict[str, Entry] = {
    "E221": Entry("location is missing", "All rows of the location are lost.", _RESTORE),
    "E222": Entry("definition is missing", "Deephaven cannot open the location.", _RECOVER),
    "E223": Entry(
        "definition was never deployed for this table",
        "Deephaven reads the location by other columns.",
        "remove the file, then run `sparkhaven recover`, which writes it again from the schema",
    ),
    "N223": Entry(
        "definition was never deployed for this table", "Another program wrote the location, and its definition."
    ),
    "E224": Entry("location is not published. Its record is missing", "Deephaven does not see its rows.", _REMERGE),
    "W224": Entry("location is not published. Its record is missing", "Deephaven does not see its rows.", _RECOVER),
    "N225": Entry(
        "record was published by an epoch that is no longer kept. It was not compared",
        "A stream went on while the check ran.",
        "verify again when the stream is at rest",
    ),
    "E226": Entry("record differs from what was committed", "Deephaven sees other rows than committed.", _RECOVER),
    "W226": Entry("record is behind the commit log", "Deephaven does not see the newest rows yet.", _RECOVER),
    "E227": Entry(
        "the grouping file is missing", "The overflow flag of the column is TRUE. Reads work without it.", _REMERGE
    ),
    "E228": Entry(
        "there is a grouping file, but the overflow flag of the column is FALSE",
        "Readers ignore the file. Flag or file is wrong.",
        _REMERGE,
    ),
    "W229": Entry(
        "no stream has committed this. Readers ignore it",
        "A batch was interrupted, or files were put there by hand.",
        "after an interrupted batch run `sparkhaven recover`, which removes it. Else move it away",
    ),
    "W230": Entry(
        "{rows} rows of {location}, stream {stream}, were set aside",
        "A recovery found rows that its log does not have. Reads of the date fail.",
        "reads of that date fail. To accept the loss, move it out of the database with its note",
    ),
    "N231": Entry(
        "set aside by a recovery: not part of the table",
        "Readers ignore it.",
        "compare it with the table, then remove it",
    ),
    "N232": Entry(
        "moved away: history has its rows",
        "A removal has moved the files aside.",
        "`sparkhaven delete {table} --dates {date}` removes it",
    ),
    "E233": Entry(
        "two streams own this location",
        "Which rows it has depends on who is asked.",
        "roll one of the streams back. A location has one writer",
    ),
    "N234": Entry(
        "rows are withdrawn. Programs that read the files by themselves see those before the first of them",
        "An undo or a deletion of rows has withdrawn them. Readers here leave them out.",
        "`sparkhaven merge {table} --dates {date}` writes the date without them",
    ),
    "E235": Entry(
        "volume of a storage partition is not there",
        "Rows of history are away until it is mounted.",
        "mount the volume, or correct the link",
    ),
    "E236": Entry(
        "link of a storage partition is broken",
        "History there cannot be read or written.",
        "mount its volume, or correct the link",
    ),
}
COLUMNS: dict[str, Entry] = {
    "W241": Entry("grouping column of history has no grouping", "Filtered reads are slower.", _REMERGE),
    "E242": Entry(
        "statistics are wrong. Reads may skip rows that match",
        "A filtered read may miss rows.",
        "merge the date, or ingest it again. Until then read without --where",
    ),
    "E243": Entry(
        "a value is not one of column {column}",
        "The bytes of a value have no meaning in the type of the column.",
        _RESTORE,
    ),
    "E244": Entry(
        "a row does not have the value of its group",
        "A filtered read of Deephaven may give wrong rows.",
        f"{_REMERGE}. Until then reads work without the grouping",
    ),
    "N245": Entry("symbols without bytes are read as null", "Another program wrote them."),
    "N246": Entry("a text has several symbols. Reads are correct, it only wastes space", "Nothing is lost."),
    "W246": Entry(
        "a text has several symbols. Reads are correct, it only wastes space", "A merge writes each once.", _REMERGE
    ),
    "N247": Entry("symbols of history are not sorted", "Nothing depends on it."),
}
INDEXES: dict[str, Entry] = {
    "E251": Entry(
        "an index is not that of the rows",
        "A filtered read may miss rows.",
        f"{_REMERGE}. Until then read without --where",
    ),
    "E252": Entry(
        "the footer names an index that the merge record does not have",
        "Deephaven may read an index that nothing has proved.",
        _REMERGE,
    ),
    "E253": Entry("index is missing", "The record of the location names it. Rows are read without it.", _REMERGE),
    "E261": Entry("location index is missing", "Deephaven lists directories instead.", _REINDEX),
    "W261": Entry(
        "location index is missing",
        "A merge is writing it, or no merge has. Deephaven lists directories instead.",
        _REINDEX,
    ),
    "E262": Entry(
        "location index differs from the locations of history",
        "Deephaven believes the index: it misses rows, or fails.",
        _REINDEX,
    ),
    "W262": Entry(
        "location index differs from the locations of history", "A merge is running, and writes it last.", _REINDEX
    ),
    "E263": Entry(
        "location index has a time of no merge", "Deephaven may keep rows of before the last merge.", _REINDEX
    ),
    "E264": Entry(
        "Locations table differs from its tree",
        "Other programs read leaves that are not there, or miss some.",
        "`sparkhaven metadata update {table}` writes the table again",
    ),
}
HISTORY: dict[str, Entry] = {
    "E271": Entry("merge has no valid proof", "Rows may have been lost on the way to history.", _REMERGE),
    "E272": Entry(
        "rows were rolled back after their merge. Reads use only intraday", "History has rows of no epoch.", _REMERGE
    ),
    "N273": Entry(
        "a merge runs or was interrupted after phase {phase}",
        "Readers use what was there before.",
        f"`{next_steps.merge('{table}', '{date}')}` continues it",
    ),
    "E274": Entry("merge record is missing", "Truncated rows have no history.", _RESTORE),
    "N275": Entry(
        "moved here from storage partition {before} since its merge",
        "Reads are right. The proof of the merge counts on.",
        _ADOPT,
    ),
    "W276": Entry(
        "no merge record vouches for this location. Readers take it as it stands",
        "Nothing proves its rows.",
        f"{_ADOPT}. Move it away if it is a stray copy",
    ),
    "W277": Entry(
        "files of column {column} are missing. Readers take its values as null",
        "The values are lost, or were never copied.",
        "restore them from a copy",
    ),
    "W278": Entry(
        "nothing says how many rows this location has. Readers ignore it",
        "Another program has not published it.",
        "have the program that wrote it publish it, or move it away if it is a stray copy",
    ),
    "N279": Entry("written by an unfinished merge. Readers ignore it", "The merge goes on, or starts anew."),
    "N280": Entry(
        "replaced by a newer merge. Kept until no reader can use it",
        "Older snapshots read it.",
        "`sparkhaven clean {table}` removes it in time",
    ),
    "N281": Entry("not finished", "A command that was interrupted goes on with it.", "run the command again"),
    "W282": Entry(
        "history of {table} stands here, which has no schema. No reader finds it",
        "Its columns have no types.",
        "run `sparkhaven schema deploy FILE`, or move the directory away if it is a stray copy",
    ),
    "W291": Entry(
        "only one look found this",
        "The table changed while it was read.",
        "the table changed while it was read, and only one look found this. Run `sparkhaven verify` again",
    ),
}
STREAMS: dict[str, Entry] = {
    "E301": Entry(
        "a file names more than the commit log has", "Committed rows may be lost with the end of the log.", _RESTORE
    ),
    "E302": Entry(
        "a source file was ingested twice: {file}",
        "Rows are there twice.",
        "roll the stream back to the epoch before the second one",
    ),
    "E303": Entry(
        "offsets were ingested twice",
        "Rows are there twice, or are missing.",
        "roll the stream back to the epoch before this one",
    ),
    "E304": Entry("rows of an epoch do not add up", "The record contradicts itself.", _RESTORE),
    "W305": Entry(
        "the commit log was rebuilt and its source positions are unknown. The stream ingests nothing",
        "Reads are right. The stream waits.",
        "{command}",
    ),
    "W306": Entry(
        "the commit log was restored from an older copy and continued. Epoch numbers were reused",
        "Rows of epochs that the copy lacks are lost, unless their source was read again.",
        "compare the table with the source. The removal does not apply to this location, and rows of"
        " epochs that the copy lacks are lost unless their source was read again",
    ),
    "W307": Entry(
        "the ledger of the quarantine is missing",
        "Rejected rows cannot be listed until the next start.",
        "the next start of the stream writes it again from the commit log",
    ),
    "N308": Entry("head is damaged. Readers ignore it, the stream replaces it", "The head is a cache of the log."),
    "E308": Entry(
        "head differs from the commit log",
        "Readers may see another state than the log has.",
        "delete it: it is a cache of checkpoint and log",
    ),
    "W310": Entry(
        "last record is torn. It was never committed, recovery drops it",
        "A process was killed while it wrote.",
        f"{_RECOVER} if no stream is running",
    ),
    "N311": Entry(
        "files that a rebuild of a commit log has replaced",
        "They are kept until somebody has looked.",
        "remove them once the table is verified",
    ),
    "N312": Entry(
        "left over from an interrupted removal, or from a start that was killed before its first epoch",
        "No rows depend on it.",
        "`sparkhaven streams remove {table} {stream}` removes it",
    ),
    "N313": Entry(
        "the note of a stream's last failure is damaged",
        "Only what it says is lost.",
        "remove it. Nothing depends on it",
    ),
}
TREES: dict[str, Entry] = {
    "N321": Entry(
        "the schema asks for no such tree. Merges do not keep it in step",
        "Other programs may read old rows.",
        "remove it if no other program reads it",
    ),
    "W322": Entry("the tree of the schema's ExtendedStorage is missing", "Other programs read nothing.", "{again}"),
    "E323": Entry("the manifest of the tree is missing", "Nothing says which files belong to the tree.", "{again}"),
    "E324": Entry(
        "no manifest names this file: other programs would read its rows",
        "Other programs read rows that history does not have.",
        "move it out of the tree",
    ),
    "W325": Entry("date {date} is not in step with history", "Other programs read other rows than history.", "{again}"),
    "W326": Entry(
        "a merge is writing the tree",
        "What was found may be half of a change.",
        "a merge is writing the tree or was interrupted. Verify again, or {again}",
    ),
    "E331": Entry(
        "the definition is not that of the rows",
        "Deephaven reads a user table by other columns.",
        "save the table: any save writes the definition again",
    ),
    "W332": Entry(
        "directory that no save has committed",
        "A save was interrupted.",
        "the next save of the table removes it, if an interrupted one wrote it. Else move it away",
    ),
    "W333": Entry(
        "directory of intraday data that nothing reads",
        "Its rows are in no user table.",
        "its location is not published, or was truncated",
    ),
    "W334": Entry(
        "directory of intraday data of no user table",
        "Its rows are in no user table.",
        "restore the definition from a copy, or remove the directory",
    ),
    "E335": Entry(
        "the record of a drop of {table} is missing",
        "The evidence of what a dropped table had is lost.",
        "restore it from a copy. It is the evidence of what the table had, no row depends on it",
    ),
    "E361": Entry("table is in one of the roots only", "All of its rows differ.", "mirror the table, or restore it"),
    "E362": Entry(
        "rows differ", "One root has rows that the other lacks.", "`sparkhaven verify --deep` says which root is sound"
    ),
}
DOCTOR: dict[str, Entry] = {
    "E401": Entry("something that every command needs is missing", "Commands fail.", "install it"),
    "N401": Entry("something optional is not installed", "What needs it does not work.", "install it"),
    "E402": Entry("Spark's defaults name what is not there", "Spark reads otherwise than asked.", "correct the file"),
    "N402": Entry("Spark reads tables by Python", "Results are the same, and slower.", "install the jar"),
    "E403": Entry("no JDK that Spark can start", "Commands with Spark fail.", "install a JDK, or set JAVA_HOME"),
    "N403": Entry("no class archive", "Spark takes longer to start than necessary.", _NEXT),
    "E411": Entry("file system without write barriers", "A power failure may lose rows.", "mount it without nobarrier"),
    "N411": Entry("durability of the file system is not known or not given", "A power failure may lose rows.", "move"),
    "E412": Entry("hardly any free space", "Commits will fail.", "free space there"),
    "N412": Entry("little free space", "Commits may fail soon.", "free space there"),
    "E413": Entry("this user may not write", "Commands that change something fail.", "run them as the owner"),
    "N413": Entry("the root is a copy, or is mounted read-only", "Readers work, streams and merges do not."),
    "N414": Entry("the root does not exist", "Ingest creates it.", _NEXT),
    "E421": Entry("a start refuses the schema of a stream", "The stream ingests nothing.", _NEXT),
    "N421": Entry("a remark on a schema", "Some commands or programs refuse the table.", _NEXT),
    "E422": Entry("a stream file cannot be used", "The stream does not start.", "correct the file"),
    "N431": Entry("no stream has run in this database yet", "There are no rows.", _NEXT),
    "E432": Entry("a run of the stream would stop", "The stream ingests nothing.", _NEXT),
    "N432": Entry("a remark on the input that waits", "Rows may be rejected, or fields lost.", _NEXT),
    "E433": Entry("a field is gone from the rows", "Its column is null since then.", "correct `from` of the column"),
    "N433": Entry("fields and columns do not fit", "Fields are lost, or columns are null.", _NEXT),
    "E434": Entry("intraday directories without a commit log", "Readers see none of the rows.", "restore the log"),
    "N435": Entry("a large log was not checked", "Damage in it is not shown here.", _NEXT),
    "E436": Entry("the stream has failed, and has not succeeded since", "New rows do not come.", _NEXT),
    "N436": Entry("the stream has failed, and runs again", "It has committed nothing since.", _NEXT),
    "E437": Entry("a time is in the future", "A clock was wrong. Files may be left out.", "set the clock"),
    "N438": Entry("the stream was last opened on another host", "Only that host knows whether it runs.", "look there"),
    "N439": Entry("rows are in quarantine", "They wait for a person.", _NEXT),
    "N451": Entry("dates wait for their next step", "Intraday data stay until then.", _NEXT),
    "E452": Entry("a validation has failed or is damaged", "Intraday data are not removed.", _NEXT),
    "N453": Entry("files that nothing reads take room", "Only space is lost.", _NEXT),
    "E490": Entry("a check could not read what it needs", "What it would have found is not known.", _NEXT),
    "E491": Entry("the check itself failed", "What it would have found is not known.", "run doctor with -v"),
}
PARTS: Mapping[str, Mapping[str, Entry]] = {
    "Files": FILES,
    "Locations": LOCATIONS,
    "Columns": COLUMNS,
    "Indexes": INDEXES,
    "History": HISTORY,
    "Streams": STREAMS,
    "Trees, user tables, dropped tables, other roots": TREES,
    "Machine, settings, next steps": DOCTOR,
}
CATALOGUE: Mapping[str, Entry] = {code: entry for part in PARTS.values() for code, entry in part.items()}
