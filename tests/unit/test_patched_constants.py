"""What a test varies is an argument: constants of modules that tests patch, or assign, are counted here."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.places import REPOSITORY
from tools.code.syntax_trees import module_tree, syntax_tree

CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
# Each with the reason why no argument takes its place: fewer, never more.
REMAINING = {
    "tests/crash/spark/plain_job.py": 2,  # how long a process of its own waits for locks
    "tests/support/ingest/small_blocks.py": 3,  # limits deep inside of the reading of files, for whole runs
    "tests/unit/ingest/feeds/kafka/broker/test_answers.py": 1,  # the largest answer
    "tests/unit/ingest/test_fuzz_decoders.py": 1,  # the guard, taken away to see the fuzzer fail
    "tests/unit/readers/checks/test_sound_columns.py": 1,  # an older kernel
}


def patched(module: ast.Module) -> Iterator[str]:
    """The constants of modules that a module of tests patches, in any of the ways there are."""
    imported = set(_imported(module))
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            texts = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            yield from (name for text in texts[:1] if CONSTANT.fullmatch(name := text.rpartition(".")[2]))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) in imported:
                    yield from (name for name in [target.attr] if CONSTANT.fullmatch(name))


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def counts() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        found[str(path.relative_to(REPOSITORY))] += len(list(patched(module_tree(path))))
    return +found


def test_no_more_constants_are_patched() -> None:
    assert dict(counts()) == REMAINING


def test_each_way_to_patch_a_constant_is_seen() -> None:
    lines = (
        'patch.setattr(module, "LIMIT", 1)',
        'patch.setattr("package.module._LIMIT", 1)',
        'patch.setattr(module, "limit", "LIMIT")',
        "import package.module\npackage.module.LIMIT = 1",
        "from package import module\nmodule.LIMIT = 1",
        "story.LIMIT = 1",
    )
    assert [list(patched(syntax_tree(line))) for line in lines] == [["LIMIT"], ["_LIMIT"], [], ["LIMIT"], ["LIMIT"], []]
