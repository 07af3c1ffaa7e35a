"""Read a script or a notebook, and return what the rules find."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

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
    """Yield what goes wrong in the cells of a notebook, and the number of the cell.

    Cells are read one by one, each with the imports of those before.
    """
    imports: list[str] = []
    cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        source = plain("".join(cell["source"]))
        try:
            tree = ast.parse(source)
        except SyntaxError:  # another language, as under %%bash
            continue
        head = "; ".join(imports)
        for finding in read_source(f"{head}\n{source}"):
            yield number, Finding(finding.line - 1, *parts(finding))
        imports += [ast.unparse(n) for n in tree.body if is_import(n)]


def parts(finding: Finding) -> tuple[str, str, str]:
    """Return what a finding says beside the line."""
    return finding.rule, finding.problem, finding.cure


def is_import(node: ast.stmt) -> bool:
    """Tell whether a statement imports something."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def plain(cell: str) -> str:
    """Return a cell with its magics and shell lines as comments; lines keep numbers."""
    return "\n".join(
        "#" + line if line.lstrip().startswith(("%", "!")) else line
        for line in cell.splitlines()
    )
