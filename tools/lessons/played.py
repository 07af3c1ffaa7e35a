"""What live ranks answered: lessons as `tools/play.py` ran them for the decks."""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lessons.reading import ROOT, NotFound, cell_of, path_of

PLAYED = ROOT / "build" / "live"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def file_of(lesson: str) -> Path:
    """Return where a played lesson is stored."""
    return PLAYED / path_of(lesson).name


@cache
def _notebook(path: Path, _modified: int) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def cell(lesson: str, name: str) -> NotebookNode:
    """Return a played cell, with its outputs.

    Raises NotFound where the lesson, or that cell of it, has not been played.
    """
    path = file_of(lesson)
    if not path.exists():
        raise NotFound(f"lesson {lesson} has not been played: python tools/play.py")
    return cell_of(_notebook(path, path.stat().st_mtime_ns), name, f"played {lesson}")


def text_of(output: NotebookNode) -> str:
    """Return an output as text: what was printed, a value, a picture's text, an error.

    Colours of a terminal are left out.
    """
    if output.output_type == "stream":
        text = output.text
    elif output.output_type == "error":
        text = "\n".join(output.traceback)
    else:
        text = output.data.get("text/plain", "")
    return COLOUR.sub("", text).strip("\n")


def shown_by(cell: NotebookNode) -> str:
    """Return all that a cell showed, as text in one line."""
    return " ".join(" ".join(map(text_of, cell.outputs)).split())


def shows(cell: NotebookNode, text: str) -> bool:
    """Tell whether a cell showed a text; " … " in it stands for anything."""
    parts = (" ".join(part.split()) for part in text.split(" … "))
    return bool(re.search(".*?".join(map(re.escape, parts)), shown_by(cell)))


def save_pictures(notebook: NotebookNode, folder: Path) -> None:
    """Write every picture of a played notebook to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for played in notebook.cells:
        for number, output in enumerate(played.get("outputs", [])):
            png = output.get("data", {}).get("image/png")
            if png:
                file = picture_of(folder, played["id"], number)
                file.write_bytes(base64.b64decode(png))


def picture_of(folder: Path, name: str, number: int) -> Path:
    """Return the file of a picture: the output of that number, of the cell `name`."""
    return folder / f"{name}-{number}.png"
