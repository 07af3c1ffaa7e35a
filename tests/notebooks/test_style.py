"""Every lesson and its solutions follow the rules of lesson_rules.py."""

import copy
from pathlib import Path

import lesson_rules
import nbformat.v4 as nb4
import pytest
from lesson_rules import IGNORED, LESSON_RULES, SOLUTION_RULES, Notebook, is_ignored

pytestmark = pytest.mark.unit

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))
LANDED = range(1, 14)  # the lessons that must be there


def cases(paths: list[Path], rules: tuple) -> list:
    return [
        pytest.param(path, rule, id=f"{path.stem}-{rule.__name__}")
        for path in paths
        for rule in rules
    ]


@pytest.mark.parametrize(("path", "rule"), cases(LESSONS, LESSON_RULES))
def test_lesson(path, rule):
    assert list(rule(Notebook(path))) == []


@pytest.mark.parametrize(("path", "rule"), cases(SOLUTIONS, SOLUTION_RULES))
def test_solutions(path, rule):
    assert list(rule(Notebook(path))) == []


def test_every_notebook_is_a_lesson_or_solutions():
    """No notebook escapes the rules by its name or place."""
    found = set(NOTEBOOKS.rglob("*.ipynb")) if NOTEBOOKS.exists() else set()
    found = {path for path in found if ".ipynb_checkpoints" not in path.parts}
    assert found == {*LESSONS, *SOLUTIONS}
    numbers = [path.name[:2] for path in LESSONS]
    assert len(set(numbers)) == len(numbers)
    assert {path.name for path in SOLUTIONS} <= {
        f"{number}_solutions.ipynb" for number in numbers
    }


def test_listed_cells_exist():
    """An entry of IGNORED whose cell is gone would excuse a future one."""
    real = {
        (path.name, cell.id)
        for path in [*LESSONS, *SOLUTIONS]
        for cell in Notebook(path).code
        if is_ignored(cell)
    }
    assert real >= IGNORED


def test_the_lessons_are_there():
    assert {Notebook(path).number for path in LESSONS} >= set(LANDED)
    for number in LANDED:
        assert (NOTEBOOKS / "solutions" / f"{number:02}_solutions.ipynb").exists()


# --- the rules themselves, on a lesson made up here ------------------------------

KERNEL = {
    "kernelspec": {"name": "python3", "display_name": "Python 3"},
    "language_info": {"name": "python"},
}
STUB = "%%px\nimport torch\n\n\ndef gather(shard):\n    return None"
SOLUTION = STUB.replace("return None", "return torch.cat([shard])")
PROSE = "You see that each rank holds its own piece of the whole tensor. " * 6


def code(source: str, *outputs, tags: tuple[str, ...] = ()):
    metadata = {"tags": list(tags)} if tags else {}
    return nb4.new_code_cell(source, outputs=list(outputs), metadata=metadata)


def printed(text: str):
    return nb4.new_output("stream", name="stdout", text=text)


def made_up() -> list:
    """Return the cells of a lesson that follows every rule."""
    say = nb4.new_markdown_cell
    title = "# 3 · Gather equal shards everywhere\n\n> Every rank gets the whole.\n\n"
    goals = "**You will** gather.\n\n**You need** lesson 2.\n\n**Time** 20 min, 4 ranks"
    pairs = [
        cell
        for number in range(8)
        for cell in (say(PROSE), code(f"print({number})", printed(f"{number}\n")))
    ]
    return [
        say(title + goals),
        code("from course_utils import check, launch\nranks = launch(4)\nranks"),
        *pairs,
        say("## Exercise 3.1 · Gather without aliasing\n\nAbout 4 lines."),
        code(STUB),
        code('check("3.1", ranks)', printed("right\n")),
        say("## What you can now do\n\nYou gathered."),
        say("## In practice"),
        say("## Next"),
        code("ranks.stop()"),
    ]


@pytest.fixture
def lesson(tmp_path):
    """Return a function: the rule names that a changed made-up lesson breaks."""
    path = tmp_path / "03_gather.ipynb"
    (tmp_path / "solutions").mkdir()

    def write(path: Path, cells: list) -> None:
        codes = [cell for cell in cells if cell.cell_type == "code"]
        for count, cell in enumerate(codes, 1):
            cell.setdefault("execution_count", count)
            cell.execution_count = cell.execution_count or count
        path.write_text(nb4.writes(nb4.new_notebook(cells=cells, metadata=KERNEL)))

    def broken(change=lambda cells: None) -> set[str]:
        cells = made_up()
        solved = copy.deepcopy([*cells[:2], *cells[18:21], cells[-1]])
        solved[3].source = SOLUTION
        change(cells)
        write(path, cells)
        write(tmp_path / "solutions" / "03_solutions.ipynb", solved)
        return {r.__name__ for r in LESSON_RULES if list(r(Notebook(path)))}

    broken.solutions = tmp_path / "solutions" / "03_solutions.ipynb"
    return broken


def test_the_made_up_lesson_breaks_no_rule(lesson):
    assert lesson() == set()
    solutions = Notebook(lesson.solutions)
    assert [rule for rule in SOLUTION_RULES if list(rule(solutions))] == []


def source(place: int, text: str):
    def change(cells):
        cells[place].source = text

    return change


def output(text: str, **data: str):
    def change(cells):
        made = nb4.new_output("display_data", data=data) if data else printed(text)
        cells[3].outputs = [made]

    return change


def tag(name: str):
    def change(cells):
        cells[3].metadata["tags"] = [name]

    return change


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("title", source(0, made_up()[0].source.replace("3 ·", "4 ·"))),
        ("title", source(0, made_up()[0].source.replace("> Every", "Every"))),
        ("title", source(0, made_up()[0].source.replace("whole.", "whole. And more."))),
        ("opening", source(0, made_up()[0].source.replace("20 min", "soon"))),
        ("opening", source(0, made_up()[0].source.replace("You need", "Need"))),
        ("setup_cell", source(1, "import course_utils")),
        ("setup_cell", source(1, made_up()[1].source + "\n\n\nprint(1)")),
        ("stop_cell", source(-1, "ranks")),
        ("headings", source(-2, "## Afterwards")),
        ("size", lambda cells: cells.__delitem__(slice(2, 10))),
        ("size", source(2, PROSE * 30)),
        ("size", lambda cells: [source(n, "x\n" * 8)(cells) for n in range(3, 18, 2)]),
        ("exercises", source(18, "## Exercise 3.2 · Another one")),
        ("exercises", source(20, "print(1)")),
        ("solved", source(20, 'check("3.2", ranks)')),
        ("stubs", source(19, STUB.replace("torch", "os"))),
        ("stubs", source(19, STUB + "\n\n\ngather(rank)")),
        ("wording", source(2, PROSE + "This is " + "easy.")),
        ("wording", source(2, PROSE + "\U0001f600")),
        ("code_form", source(3, "x = 1\n" * 21)),
        ("code_form", source(3, "x = " + "1" * 80)),
        ("code_form", source(3, "")),
        ("no_installs", source(3, "%pip install torch")),
        ("no_installs", source(3, "import sys\nsys.path.append('..')")),
        ("output_form", output("1\n" * 21)),
        ("output_form", output("see /tmp/x")),
        ("output_form", output("listens on 10.0.0.7")),
        ("output_form", output("", **{"text/html": "<img src='x'>"})),
        ("output_form", output("", **{"image/svg+xml": "<svg/>"})),
        ("output_form", output("", **{"image/png": "iVBO"})),
        ("speaks", lambda cells: cells[3].update(outputs=[])),
        ("speaks", source(1, "%%px --targets 0\nwhile True:\n    print(1)\n    break")),
        ("executed", lambda cells: cells[3].update(execution_count=40)),
        ("executed", tag("raises-exception")),
        ("metadata", lambda cells: cells[3].metadata.update(scrolled=True)),
        ("metadata", tag("nbval-skip")),
        ("metadata", source(3, "# NBVAL_IGNORE_OUTPUT\nprint(0)")),
        ("ignored", tag("nbval-ignore-output")),
    ],
)
def test_a_broken_rule_is_seen(lesson, rule, change):
    assert rule in {existing.__name__ for existing in LESSON_RULES}
    assert rule in lesson(change)


def test_listed_ignored_cell_needs_a_compared_one_behind_it(lesson, monkeypatch):
    def change(cells):
        tag("nbval-ignore-output")(cells)
        cells[3].id = "clock"

    monkeypatch.setattr(lesson_rules, "IGNORED", {("03_gather.ipynb", "clock")})
    assert lesson(change) == set()

    def change_two(cells):
        change(cells)
        cells[5].outputs = []

    assert lesson(change_two) == {"ignored", "speaks"}
