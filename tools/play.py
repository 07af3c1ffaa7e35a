"""Run the lessons that the decks refer to, on live ranks, and keep what they show.

    python tools/play.py          those whose cells, or whose decks, have changed
    python tools/play.py 03       only what the deck of lesson 3 refers to

Each lesson runs in a world of its own, up to the last cell that is needed, with the
code that decks add behind its cells. Checks of exercises are left out.
"""

import argparse
import hashlib
import os
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from lessons import asked, reading
from lessons.played import file_of, save_pictures
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from rerun import execute

AT_A_TIME = 4  # lessons: they mostly wait
LIMIT = 120  # s for one cell


def wanted(numbers: list[str]) -> dict[str, list[asked.Live]]:
    """Return the lessons that decks refer to, with the code to be added to each."""
    added: dict[str, list[asked.Live]] = defaultdict(list)
    for deck in asked.decks():
        if numbers and deck.name[:2] not in numbers:
            continue
        text = deck.read_text(encoding="utf-8")
        for lesson, _ in asked.cells(text):
            added[lesson] += []
        for live in asked.lives(text):
            added[live.lesson] += [live] if live not in added[live.lesson] else []
    return added


def needed_cells(lesson: str) -> set[str]:
    """Return the ids that any deck refers to, in that lesson."""
    texts = (deck.read_text(encoding="utf-8") for deck in asked.decks())
    pairs = set().union(*(asked.cells(text) for text in texts))
    return {cell for where, cell in pairs if where == lesson}


def prepared(lesson: str, added: list[asked.Live]) -> NotebookNode:
    """Return the code cells to run, in their order, and the one that ends the world."""
    notebook, cells = reading.notebook_of(lesson), []
    needed = needed_cells(lesson)
    for name in needed:
        reading.cell_of(notebook, name, f"lesson {lesson}")
    *code, stop = [cell for cell in notebook.cells if cell.cell_type == "code"]
    last = max(i for i, cell in enumerate(code) if cell["id"] in needed)
    for cell in code[: last + 1]:
        if not cell.source.startswith("check(") or cell["id"] in needed:
            cells.append(cell)
        for live in added:
            if live.after == cell["id"]:
                cells.append(nbformat.v4.new_code_cell(live.code, id=live.id))
    return nbformat.v4.new_notebook(cells=[*cells, stop], metadata=notebook.metadata)


def key(notebook: NotebookNode) -> str:
    """Return what changes with anything that the outputs depend on."""
    total = hashlib.sha256()
    for cell in notebook.cells:
        total.update(f"{cell['id']}\n{cell.source}\n".encode())
    for file in sorted((reading.ROOT / "course_utils").rglob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()


def play(lesson: str, added: list[asked.Live]) -> str:
    """Run a lesson unless that was done before; return what happened, or went wrong."""
    path = file_of(lesson)
    notebook = prepared(lesson, added)
    now = key(notebook)
    if path.exists():
        if nbformat.read(path, as_version=4).metadata.get("key") == now:
            return f"lesson {lesson}: unchanged"
    try:
        played = execute(notebook, reading.path_of(lesson).parent, LIMIT)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return f"lesson {lesson} failed: {error}"
    played.metadata["key"] = now
    save_pictures(played, path.with_suffix(""))
    path.write_text(nbformat.writes(played), encoding="utf-8")
    return f"lesson {lesson}: played"


def main(arguments: list[str] | None = None) -> int:
    """Play what the decks named in `arguments` refer to; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("decks", nargs="*", help="numbers, such as 03; default: all")
    lessons = wanted(parser.parse_args(arguments).decks)
    longest_first = sorted(lessons, reverse=True)  # nearly: later lessons do more
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = str(Path(folder))  # nobody's start-up files
        with ProcessPoolExecutor(AT_A_TIME) as pool:
            added = map(lessons.get, longest_first)
            for said in pool.map(play, longest_first, added):
                bad += "failed" in said.splitlines()[0]
                print(said, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
