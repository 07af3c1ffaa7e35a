"""Each lesson states the minutes that tools/lesson_minutes.py works out."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat.v4 as nb4
import pytest
from lesson_rules import Notebook

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "lesson_minutes.py")))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_states_its_minutes(path):
    lesson = Notebook(path)
    assert tool.stated(lesson) == tool.minutes(lesson).rounded


def test_contributing_has_the_figures_of_the_formula():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for row in (
        f"| a word | 1/{tool.WORDS_A_MINUTE} min |",
        f"| a line of code | {tool.SECONDS_A_CODE_LINE} s |",
        f"| a line of output | {tool.SECONDS_AN_OUTPUT_LINE} s |",
        f"| a prediction | {tool.SECONDS_A_PREDICTION} s |",
        f"| an exercise | {tool.MINUTES_AN_EXERCISE} min |",
        f"| a line you write for it | {tool.MINUTES_A_LINE_WRITTEN} min |",
        f"| running the cells | {tool.MINUTES_RUNNING} min |",
    ):
        assert row in text


def write(path: Path, *cells) -> Path:
    path.write_text(json.dumps(nb4.new_notebook(cells=list(cells))))
    return path


def test_every_part_is_counted_once(tmp_path):
    stub = "%%px\nimport torch\n\n\ndef double(x):\n    return None"
    solution = stub.replace("None", "2 * x")
    check = nb4.new_code_cell('check("3.1", ranks)')
    (tmp_path / "solutions").mkdir()
    write(
        tmp_path / "solutions" / "03_solutions.ipynb",
        nb4.new_code_cell(solution),
        check,
    )
    path = write(
        tmp_path / "03_gather.ipynb",
        nb4.new_markdown_cell("one two " * 180 + "**Predict.**"),
        nb4.new_code_cell(stub, outputs=[nb4.new_output("stream", text="a\n\nb\n")]),
        check,
    )
    took = tool.minutes(Notebook(path))
    assert took.prose == pytest.approx(2, abs=0.01)
    assert took.code == 5 * tool.SECONDS_A_CODE_LINE / 60
    assert took.output == 2 * tool.SECONDS_AN_OUTPUT_LINE / 60
    assert took.predictions == tool.SECONDS_A_PREDICTION / 60
    assert took.exercises == tool.MINUTES_AN_EXERCISE + tool.MINUTES_A_LINE_WRITTEN
    total = sum(vars(took).values())
    assert took.rounded % 5 == 0 and abs(took.rounded - total) <= 2.5
