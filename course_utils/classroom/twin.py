"""A notebook as plain Python, to read in any editor.

Cells in the percent format: text as comments, code as it is; what IPython alone reads
is a comment, too, so that the whole is Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from course_utils.classroom.submission import Submission

FIRST = "To run this, open {name}: its cells need a notebook, and ranks."
MAGIC = re.compile(r"(?P<indent>[ \t]*)(?P<line>[%!?].*|.*\?[ \t]*)")
CELL_MAGIC = re.compile(r"(?P<above>(?:[ \t]*(?:#.*)?\n)*)(?P<magic>%%.*)\n?")
ON_RANKS = re.compile(r"%%px\b")
PYTHON_INSIDE = re.compile(r"%%(px|time|timeit|capture)\b")


def twin(notebook: Submission, name: str) -> str:
    """Return a notebook, whose file has that name, as one Python file."""
    parts = [comment(FIRST.format(name=name))]
    for cell in notebook.cells:
        if cell["cell_type"] == "code":
            parts.append("\n".join(filter(None, code(cell["source"].rstrip()))))
        else:
            parts.append(f"# %% [markdown]\n{comment(cell['source'].rstrip())}")
    return "\n\n".join(parts) + "\n"


def code(source: str) -> Iterator[str]:
    """Yield the title of a code cell, and its lines."""
    found = CELL_MAGIC.match(source)
    if not found:
        yield "# %%"
        yield python(source)
        return
    magic, below = found["magic"], found["above"] + source[found.end() :]
    where = "on the ranks: " if ON_RANKS.match(magic) else ""
    yield f"# %% {where}{magic}"
    yield python(below) if PYTHON_INSIDE.match(magic) else comment(below)


def python(source: str) -> str:
    """Return code of a cell that Python reads: all of it, or as comments."""
    lines = [as_comment(line) for line in source.split("\n")]
    for text in (source, "\n".join(lines)):
        if is_python(text):
            return text
    return comment(source)


def as_comment(line: str) -> str:
    """Turn a line for IPython into a comment, below which a block may end."""
    found = MAGIC.fullmatch(line)
    if not found:
        return line
    return f"{found['indent']}{'pass  ' if found['indent'] else ''}# {found['line']}"


def is_python(text: str) -> bool:
    """Tell whether Python can read a text."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def comment(text: str) -> str:
    """Return a text as comment lines."""
    return "\n".join(f"# {line}".rstrip() for line in text.split("\n"))
