"""Cells and texts of the lessons, found by reference: "03 gather" is a cell of one.

The first word is the number of a lesson, or "03-solutions" for its solutions; the
second is the id of a cell. A text is taken from where the lesson says it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
HINT = re.compile(r"\s*<details>.*", re.DOTALL)


class NotFound(LookupError):
    """What is referred to does not exist."""


def path_of(lesson: str) -> Path:
    """Return the notebook of "03" or "03-solutions"."""
    number, _, kind = lesson.partition("-")
    if not kind:
        found = list(NOTEBOOKS.glob(f"{number}_*.ipynb"))
    else:
        found = list((NOTEBOOKS / "solutions").glob(f"{number}_{kind}.ipynb"))
    if len(found) != 1 or not re.fullmatch(r"\d\d", number):
        raise NotFound(f'there is no lesson {lesson!r}; write "03" or "03-solutions"')
    return found[0]


@cache
def notebook_of(lesson: str) -> NotebookNode:
    """Read the notebook of a lesson."""
    return nbformat.read(path_of(lesson), as_version=4)


def cell_of(notebook: NotebookNode, cell: str, name: str) -> NotebookNode:
    """Return the cell with that id; `name` says which notebook, should there be none.

    Raises NotFound, which lists the ids there are.
    """
    for candidate in notebook.cells:
        if candidate["id"] == cell:
            return candidate
    ids = [c["id"] for c in notebook.cells if c.cell_type == "code"]
    raise NotFound(f"{name} has no cell {cell!r}; its code cells are {', '.join(ids)}")


def title(lesson: str) -> str:
    """Return the title of a lesson, with its number."""
    return _first_cell(lesson).splitlines()[0].removeprefix("# ")


def promise(lesson: str) -> str:
    """Return the sentence that a lesson promises."""
    lines = _first_cell(lesson).splitlines()
    return " ".join(line.lstrip("> ") for line in lines if line.startswith(">"))


def needed(lesson: str) -> str:
    """Return what a lesson needs to be known already."""
    return _labelled(lesson, "You need")


def exercises(lesson: str) -> dict[str, tuple[str, str]]:
    """Return title and text, without the hint, of each exercise by its number."""
    found = {}
    for cell in notebook_of(lesson).cells:
        if cell.cell_type != "markdown":
            continue
        parts = re.split(r"^## Exercise (\d+\.\d+) · (.+)$", cell.source, flags=re.M)
        for number, name, text in zip(*(parts[i::3] for i in (1, 2, 3)), strict=True):
            found[number] = name.strip(), HINT.sub("", text).strip()
    return found


def _first_cell(lesson: str) -> str:
    return notebook_of(lesson).cells[0].source


def _labelled(lesson: str, label: str) -> str:
    match = re.search(rf"\*\*{label}\*\*\s+(.+)", _first_cell(lesson))
    if match is None:
        raise NotFound(f"lesson {lesson} does not say **{label}**")
    return match[1].strip()
