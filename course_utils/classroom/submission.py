"""A notebook that somebody handed in: its code, and the exercises in it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TITLE = re.compile(r"^# (\d+) · ", re.M)  # of a lesson, with its number
CHECK = "check"
WRAPPING = re.compile(r"%%(time|timeit|capture)\b.*\n")  # magics around Python code


@dataclass(frozen=True)
class Submission:
    """The cells of one notebook, as its file holds them."""

    cells: tuple[dict, ...]

    @cached_property
    def code(self) -> list[str]:
        """The source of every code cell, in order."""
        return [c["source"] for c in self.cells if c["cell_type"] == "code"]

    @property
    def lesson(self) -> str:
        """The number of the lesson that the notebook is of; "" if it names none."""
        texts = [c["source"] for c in self.cells if c["cell_type"] == "markdown"]
        found = TITLE.search("\n".join(texts))
        return found[1] if found else ""

    @cached_property
    def names(self) -> set[str]:
        """The names under which the notebook has `check`."""
        found = {CHECK}
        for source in self.code:
            found |= set(re.findall(r"\bimport .*\bcheck as (\w+)", source))
        return found

    def expected(self, known: list[str]) -> list[str]:
        """List the exercises of the lesson, and others that a cell checks.

        known: the ids of all exercises, in their order.
        """
        of_lesson = [i for i in known if i.split(".")[0] == self.lesson]
        asked = [i for source in self.code for i in ids(source, self.names)]
        return list(dict.fromkeys([*of_lesson, *asked]))


def read(path: Path) -> Submission:
    """Read a notebook.

    Raises ValueError, saying what was expected, for anything else.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise ValueError(f"expected a notebook, but {path} is {what}")
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            cell["source"] = "".join(cell["source"])
            cell["cell_type"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"expected a Jupyter notebook (.ipynb, format 4), but {path} cannot be "
            "read as one"
        ) from None
    return Submission(tuple(cells))


def unwrapped(source: str) -> str:
    """Return a cell without a magic that only times or hides what it does."""
    return WRAPPING.sub("", source, count=1) if WRAPPING.match(source) else source


def is_check(node: ast.AST, names: set[str]) -> bool:
    """Tell whether a node is a call of `check`."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in names
        case ast.Call(func=ast.Attribute(attr=attribute)):
            return attribute == CHECK
    return False


def ids(source: str, names: set[str]) -> Iterator[str]:
    """Yield the exercises that a cell checks, as far as they stand in it as text."""
    try:
        tree = ast.parse(re.sub(r"^[ \t]*[%!].*", "", unwrapped(source), flags=re.M))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if is_check(node, names):
            match node.args[:1]:
                case [ast.Constant(value=str(exercise_id))]:
                    yield exercise_id
