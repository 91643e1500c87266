"""The lint for words: long sentences, chains, and words that have a plain term, in what users read.

Pages, the help of all commands, the docstrings of the public API, and the texts in the code are checked: errors, hints,
findings, progress, log lines. A sentence has at most 25 words and at most one colon. Code is one word, and so is a
placeholder. An error says the violation, not the rule, and its hint names the table and the stream.
``python -m tools.docs.words`` prints what breaks a rule.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.code.syntax_trees import module_tree
from tools.docs.code_texts import code_texts, error_faults
from tools.docs.commands import commands

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST = 25  # words of a sentence
PAGES = ("README.md", "CONTRIBUTING.md", "docs/index.md", "docs/tutorial/*.md", "docs/howto/*.md")
API = (
    "sparkhaven/__init__.py",
    "sparkhaven/errors.py",
    "sparkhaven/testing/__init__.py",
    "sparkhaven/testing/feed_contract.py",
    "sparkhaven/testing/planned_contract.py",
    "sparkhaven/testing/tables.py",
    "readers/arrow/snapshot.py",
    "jobs/dataframes/frames.py",
    "jobs/dataframes/frame_writer.py",
)
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
SECTION_ITEM = re.compile(r"^(?:(?:Args|Returns|Yields|Raises):$| {4}[\w*, ]+: )", re.MULTILINE)
EXAMPLE = re.compile(r"^Examples?:$(?:\n(?: +.*)?)*", re.MULTILINE)
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
    faults = []
    for sentence in sentences(text):
        words = len(WORD.findall(sentence))
        if words > LONGEST:
            faults.append(f"{words} words: {sentence}")
        elif CHAIN.search(sentence):
            faults.append(f"chain: {sentence}")
    faults += [f"{word[0]!r}, better {PLAIN[word[0].lower()]!r}" for word in BAD.finditer(FENCED.sub("", text))]
    return faults


def texts() -> Iterator[tuple[str, str]]:
    """Everything that is checked, with its name."""
    for pattern in PAGES:
        for page in sorted(REPOSITORY.glob(pattern)):
            yield str(page.relative_to(REPOSITORY)), page.read_text(encoding="utf-8")
    for name in API:
        tree = module_tree(REPOSITORY / name)
        yield from ((f"{name} {subject}", text) for subject, text in _docstrings(tree, "module"))
    for words, command in commands():
        for subject, text in _help(command):
            yield f"help of {words}{subject}", text
    yield from code_texts(REPOSITORY)


def _help(command: Any) -> Iterator[tuple[str, str]]:
    yield "", inspect.cleandoc(command.help or "")
    lines = inspect.cleandoc(command.epilog or "").splitlines()
    yield " at its end", "\n".join("" if line.strip().startswith("sparkhaven ") else line for line in lines)
    for parameter in command.params:
        yield f" {parameter.opts[0]}", getattr(parameter, "help", None) or ""


def docstring_prose(text: str) -> str:
    """A docstring without its example; each argument, error and line of a table of names is a text of its own."""
    text = EXAMPLE.sub("\n", text)
    return re.sub(r"^(?=``)", "\n", SECTION_ITEM.sub("\n\n", text), flags=re.MULTILINE)


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    yield name, docstring_prose(ast.get_docstring(node) or "")
    if isinstance(node, ast.FunctionDef):
        return
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
            yield from _docstrings(inner, inner.name)


def main() -> int:
    """Prints what breaks a rule, or what does in the texts whose names begin as asked; 1 if anything does."""
    broken = [*((name, fault) for name, text in texts() for fault in faults(text)), *error_faults(REPOSITORY)]
    wrong = [f"{name}: {fault}" for name, fault in broken if name.startswith(tuple(sys.argv[1:]) or "")]
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
