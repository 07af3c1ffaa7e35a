"""Every lesson again: twice in one kernel, and on worlds of other sizes."""

import copy
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.mark import ParameterSet
from lesson_cases import LESSONS, cases, number
from lesson_rules import Notebook, is_ignored, shown
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
CELL_LIMIT = 120
LAUNCH = re.compile(r"\blaunch\(\d+")
# Worlds on which a lesson does not run; its **Time** says so.
REFUSED = {
    (2, 2): "the sub-group has ranks 1 and 2",
    (7, 2): "the cells name ranks 2 and 3",
    (7, 3): "the cells name ranks 2 and 3",
    (13, 2): "two on each host, so fewer will not do",
    (13, 3): "two on each host, so fewer will not do",
}
SOON = {1: (1, 4, 7), 2: (5, 8, 11), 3: (3, 6, 9)}  # not for a release only
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "rerun.py")))


def smaller(size: int) -> list[ParameterSet]:
    """Return the lessons that run on a world of a size, and the size."""
    will = [path for path in LESSONS if (number(path), size) not in REFUSED]
    return cases(SOON[size], will, size)


def run(lesson: Notebook, cells: list) -> list:
    """Execute `cells` in a kernel of their own; return them with their outputs.

    Fails on an error in a cell without the tag raises-exception, and where such a
    cell raises none.
    """
    notebook = copy.copy(lesson.node)
    notebook.cells = [unique(cell, place) for place, cell in enumerate(cells)]
    done = tool.execute(notebook, lesson.path.parent, CELL_LIMIT).cells
    for cell in done:
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in cell.metadata.get("tags", [])), cell
    return done


def unique(cell: NotebookNode, place: int) -> NotebookNode:
    """Return a copy of the cell with an id that no other has."""
    made = copy.deepcopy(cell)
    made.id, made.outputs = f"cell-{place}", []
    return made


def seen(cell: NotebookNode) -> list[str]:
    """Return what a reader sees below a cell; its number does not count."""
    return [re.sub(r"In\[\d+\]", "In[]", shown(output)) for output in cell.outputs]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", cases(SOON[1]))
def test_a_lesson_runs_twice_in_one_kernel(path):
    lesson = Notebook(path)
    done = run(lesson, lesson.code * 2)
    half = len(lesson.code)
    for first, second in zip(done[:half], done[half:], strict=True):
        assert is_ignored(first) or seen(first) == seen(second), first.source


@pytest.mark.parametrize(("path", "size"), smaller(2) + smaller(3))
def test_a_lesson_runs_on_a_smaller_world(path, size):
    lesson = Notebook(path)
    cells = copy.deepcopy(lesson.code)
    for cell in cells:
        cell.source = LAUNCH.sub(f"launch({size}", cell.source)
    assert f"launch({size}" in cells[0].source
    run(lesson, cells)


@pytest.mark.unit
@pytest.mark.parametrize(("lesson", "size"), REFUSED)
def test_a_lesson_says_why_a_world_will_not_do(lesson, size):
    time = re.search(r"\*\*Time\*\* .*", Notebook(LESSONS[lesson - 1]).cells[0].source)
    assert REFUSED[lesson, size] in time[0]
