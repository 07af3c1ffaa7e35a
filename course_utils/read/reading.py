"""Read a script or a notebook, and return what the rules find."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace

from course_utils.read.branches import parsed
from course_utils.read.finding import Finding
from course_utils.read.rules import RULES
from course_utils.read.source import Source

IGNORE = "# read: ignore"  # at the end of a line whose finding is known


def read_source(text: str) -> list[Finding]:
    """Return what goes wrong in a source; raise SyntaxError for what is no Python."""
    source, lines = Source(ast.parse(text)), text.splitlines()
    found = {finding for rule in RULES for finding in rule(source)}
    return sorted(f for f in found if IGNORE not in lines[f.line - 1])


def read_notebook(text: str) -> Iterator[tuple[int, Finding]]:
    """Yield what goes wrong in the cells of a notebook, and the number of the cell."""
    cells, reader = json.loads(text)["cells"], CellReader()
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        for finding in reader.read(cell):
            yield number, finding


class CellReader:
    """Read cells one by one, each with the imports of those before."""

    def __init__(self) -> None:
        self._imports: list[str] = []

    def read(self, cell: str) -> list[Finding]:
        """Return what goes wrong in a cell; nothing in one that is no Python."""
        head, tree = "; ".join(self._imports), self.take(cell)
        if tree is None:
            return []
        found = read_source(f"{head}\n{plain(cell)}")
        return [replace(finding, line=finding.line - 1) for finding in found]

    def pass_by(self, cell: str) -> None:
        """Keep the imports of a cell that is not to be read."""
        if "import" in cell:  # most have none, and parsing takes time
            self.take(cell)

    def take(self, cell: str) -> ast.Module | None:
        """Keep the imports of a cell; return its tree, None for what is no Python."""
        tree = parsed(plain(cell))
        if tree is not None:
            self._imports += [ast.unparse(n) for n in tree.body if is_import(n)]
        return tree


def is_import(node: ast.stmt) -> bool:
    """Tell whether a statement imports something."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def plain(cell: str) -> str:
    """Return a cell with its magics and shell lines as comments; lines keep numbers."""
    return "\n".join(
        "#" + line if line.lstrip().startswith(("%", "!")) else line
        for line in cell.splitlines()
    )
