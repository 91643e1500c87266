"""The lint for words: long sentences, chains, and words that have a plain term, in what users read.

Pages, the help of all commands and the docstrings of the public API are checked. A sentence has at most 25 words and
at most one colon or semicolon. Code is one word. ``python -m tools.docs.words`` prints what breaks a rule.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.docs.commands import commands

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST = 25  # words of a sentence
PAGES = ("README.md", "docs/tutorial/*.md", "docs/howto/*.md")
API = (
    "sparkhaven/__init__.py",
    "sparkhaven/errors.py",
    "sparkhaven/testing/__init__.py",
    "sparkhaven/testing/feed_contract.py",
    "sparkhaven/testing/planned_contract.py",
    "sparkhaven/testing/tables.py",
    "readers/arrow/table.py",
    "jobs/dataframes/frames.py",
    "jobs/dataframes/frame_writer.py",
)
EXEMPT: frozenset[str] = frozenset()  # pages and modules that are not clean yet
PLAIN = {
    "unless told": "default: …",
    "not foreseen": "unexpected error",
    "nobody foresaw": "unexpected error",
    "made again": "recreated",
    "take what is there": "process all available input, then exit",
    "takes what is there": "processes all available input, then exits",
    "leaves the house": "error handling",
    "whole epochs": "snapshot isolation",
    "least far": "least advanced",
    "outlives its successor": "zombie",
    "parked": "written to the quarantine",
    "parks": "writes to the quarantine",
    "upkeep": "maintenance",
    "graves": "rolled-back epochs",
    "stones": "tombstones",
    "gist": "error summary",
    "spool": "spill",
    "holder": "lock owner",
    "verdict": "resolution",
    "survivors": "durable prefix",
    "at 3 a.m.": "troubleshooting",
    "behind the words": "after other output",
}
BAD = re.compile(rf"\b(?:{'|'.join(map(re.escape, PLAIN))})(?!\w)", re.IGNORECASE)
FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"``.+?``|`[^`]+`")
ITEM = re.compile(r"^ *(?:[-*] |\d+\. |#+ |> )", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=--|\W*[A-Z0-9])")
CHAIN = re.compile(r";(?=\s)|:(?=\s.*:\s)")
WORD = re.compile(r"\w[\w'’.,/+×-]*")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, a help text or a docstring: cells and items are texts of their own."""
    prose = COMMENT.sub("", FENCED.sub("\n\n", text))
    prose = CODE.sub("Code", LINK.sub(r"\1", prose))
    prose = re.sub(r"^\|.*\|$", lambda row: "\n\n" + row[0].replace("|", "\n\n") + "\n\n", prose, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n| · ", ITEM.sub("\n\n", prose)):
        joined = " ".join(paragraph.replace("**", "").split())
        yield from filter(None, (part.strip() for part in END.split(joined)))


def faults(text: str) -> list[str]:
    """What breaks a rule, as lines."""
    result = []
    for sentence in sentences(text):
        words = len(WORD.findall(sentence))
        if words > LONGEST:
            result.append(f"{words} words: {sentence}")
        elif CHAIN.search(sentence):
            result.append(f"chain: {sentence}")
    result += [f"{word[0]!r}, better {PLAIN[word[0].lower()]!r}" for word in BAD.finditer(FENCED.sub("", text))]
    return result


def texts() -> Iterator[tuple[str, str]]:
    """Everything that is checked, with its name."""
    for pattern in PAGES:
        for page in sorted(REPOSITORY.glob(pattern)):
            yield str(page.relative_to(REPOSITORY)), page.read_text(encoding="utf-8")
    for name in API:
        tree = ast.parse((REPOSITORY / name).read_text(encoding="utf-8"))
        yield from ((f"{name} {what}", text) for what, text in _docstrings(tree, "module"))
    for words, command in commands():
        for what, text in _help(command):
            yield f"help of {words}{what}", text


def _help(command: Any) -> Iterator[tuple[str, str]]:
    yield "", inspect.cleandoc(command.help or "")
    lines = inspect.cleandoc(command.epilog or "").splitlines()
    yield " at its end", "\n".join("" if line.strip().startswith("sparkhaven ") else line for line in lines)
    for parameter in command.params:
        yield f" {parameter.opts[0]}", getattr(parameter, "help", None) or ""


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    text = ast.get_docstring(node) or ""
    # a table of names is an item a line
    yield name, re.sub(r"^(?=``)", "\n", text, flags=re.MULTILINE)
    if isinstance(node, ast.FunctionDef):
        return
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
            yield from _docstrings(inner, inner.name)


def main() -> int:
    """Prints the faults of all texts that are not exempt, or of those whose names begin as asked; 1 if there are
    any."""
    asked = tuple(sys.argv[1:])
    count = 0
    for name, text in texts():
        if name.startswith(asked) if asked else name.partition(" ")[0] not in EXEMPT:
            for fault in faults(text):
                print(f"{name}: {fault}")
                count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
