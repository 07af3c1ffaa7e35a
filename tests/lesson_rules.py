"""The rules of a lesson that a machine can check (CONTRIBUTING.md, "A lesson").

Every rule is a function that takes a Notebook and yields what is wrong with it.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import nbformat

TAGS = {"nbval-ignore-output", "raises-exception"}
# Cells whose output may differ between runs: (file, cell id). Each is followed by a
# compared cell that checks what the reader was shown.
IGNORED = {
    ("01_meet_the_ranks.ipynb", "where"),  # pids and the name of the machine
    ("02_init_the_process_group.ipynb", "backends"),  # which ones torch was built with
    ("03_solutions.ipynb", "replay-3-2"),  # frames and durations follow the clock
    # times
    ("10_measure_time.ipynb", "wrong-table"),
    ("10_measure_time.ipynb", "faults-table"),
    ("10_measure_time.ipynb", "fit"),
    ("10_measure_time.ipynb", "timeline"),
    ("10_measure_time.ipynb", "table"),
    ("13_leave_the_machine.ipynb", "fit"),
    ("13_leave_the_machine.ipynb", "where"),  # pids
}

SETUP = re.compile(
    r"from course_utils import (check, )?launch\n+"
    r"ranks = launch\((?P<arguments>[^\n()]*)\)(\nranks)?"
)
STOP = "ranks.stop()"
FORBIDDEN = re.compile(r"\b(simply|just|easy|easily|obviously|trivial(ly)?)\b", re.I)
EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf]")
HEADINGS = ("What you can now do", "In practice", "Next")
CHECK = re.compile(r"""check\(\s*["'](\d+\.\d+)["']\s*,\s*ranks\b""")
EXERCISE = re.compile(r"^## Exercise (\d+\.\d+) · \S", re.M)
PICTURE = re.compile(r"<(img|svg|image|canvas)\b|data:image", re.I)
MACHINE = re.compile(
    r"/tmp/|/home/|/root/|/usr/|/work/|/Users/|site-packages|ipykernel_\d"
    r"|0x[0-9a-f]{6,}|\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b)\d{1,3}(\.\d{1,3}){3}\b"
)
CODE_LINES, MEDIAN_LINES, COLUMNS, OUTPUT_LINES = 20, 5, 79, 20
CELLS, WORDS = range(20, 36), range(600, 1401)


@dataclass(frozen=True)
class Notebook:
    """A stored notebook, read once."""

    path: Path

    @cached_property
    def node(self) -> nbformat.NotebookNode:
        return nbformat.read(self.path, as_version=4)

    @property
    def cells(self) -> list:
        return self.node.cells

    @cached_property
    def code(self) -> list:
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @cached_property
    def prose(self) -> str:
        texts = [cell.source for cell in self.cells if cell.cell_type == "markdown"]
        return "\n\n".join(texts)

    @property
    def number(self) -> int:
        return int(self.path.name[:2])

    def named(self, cell) -> str:
        return f"cell {self.cells.index(cell)}"


def lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def shown(output) -> str:
    """Return the text that a reader sees of an output."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return output.data.get("text/plain", "")


def steps(cell) -> int:
    """Count the lines of a cell that are neither empty nor imports."""
    left = [line for line in lines(cell.source) if line.strip()]
    return len([line for line in left if not line.startswith(("import ", "from "))])


def words(prose: str) -> int:
    """Count the words of the prose, without code blocks, tags and formulas."""
    text = re.sub(r"```.*?```|<[^>]+>|\$[^$]*\$", " ", prose, flags=re.S)
    return len(re.findall(r"\w[\w'’.-]*", text))


# --- rules for lessons ---------------------------------------------------------


def title(lesson: Notebook) -> Iterator[str]:
    first = lines(lesson.cells[0].source)
    if not re.fullmatch(rf"# {lesson.number} · \S.*[^.]", first[0]):
        yield f"the title must be '# {lesson.number} · Verb …', and is {first[0]!r}"
    quote = [line for line in first if line.startswith(">")]
    sentence = " ".join(line.lstrip("> ") for line in quote)
    if not re.fullmatch(r"[^.!?]+(\.\w[^.!?]*)*[.!?]", sentence):
        yield f"the promise must be one sentence, as a quote, and is {sentence!r}"


def opening(lesson: Notebook) -> Iterator[str]:
    """Everything before the first code cell: what, with what, how long."""
    until = lesson.cells.index(lesson.code[0])
    text = "\n".join(cell.source for cell in lesson.cells[:until])
    for label in ("You will", "You need", "Time"):
        if f"**{label}" not in text:
            yield f"**{label}** is missing before the first code cell"
    if not re.search(r"\*\*Time.*\d+ min.*rank", text):
        yield "**Time** must name minutes and ranks"


def setup_cell(lesson: Notebook) -> Iterator[str]:
    source = lesson.code[0].source
    if not SETUP.fullmatch(source) or len(lines(source)) > 4:
        yield f"the first code cell must be the set-up cell, and is\n{source}"


def stop_cell(lesson: Notebook) -> Iterator[str]:
    if lesson.code[-1].source.strip() != STOP:
        yield f"the last code cell must be {STOP}"


def headings(lesson: Notebook) -> Iterator[str]:
    found = re.findall(r"^## (.+?)\s*$", lesson.prose, flags=re.M)
    at = [found.index(name) if name in found else -1 for name in HEADINGS]
    if -1 in at or at != sorted(at):
        yield f"'## ' {HEADINGS} must all be there in this order: {found}"


def size(lesson: Notebook) -> Iterator[str]:
    if len(lesson.cells) not in CELLS:
        yield f"{len(lesson.cells)} cells, not {CELLS.start} to {CELLS.stop - 1}"
    if words(lesson.prose) not in WORDS:
        count = words(lesson.prose)
        yield f"{count} words, not {WORDS.start} to {WORDS.stop - 1}"
    middle = median(map(steps, lesson.code))
    if middle > MEDIAN_LINES:
        yield f"half of the code cells have {middle} lines or more"


def exercises(lesson: Notebook) -> Iterator[str]:
    """Each exercise has a heading, a check, and both carry the number of the lesson."""
    asked = EXERCISE.findall(lesson.prose)
    checked = ids(lesson)
    if not asked or asked != checked:
        yield f"headings ask for {asked}, cells check {checked}"
    if strange := [name for name in asked if name.split(".")[0] != str(lesson.number)]:
        yield f"{strange} are not exercises of lesson {lesson.number}"


def solved(lesson: Notebook) -> Iterator[str]:
    name = f"{lesson.path.name[:2]}_solutions.ipynb"
    path = lesson.path.parent / "solutions" / name
    if not path.exists():
        yield f"{path.name} is missing"
    elif ids(Notebook(path)) != ids(lesson):
        yield f"{path.name} checks {ids(Notebook(path))}, the lesson {ids(lesson)}"


def stubs(lesson: Notebook) -> Iterator[str]:
    """The cell of an exercise imports what its solution uses.

    So it works in a fresh world, and after a rank was replaced.
    """
    path = lesson.path.parent / "solutions" / f"{lesson.path.name[:2]}_solutions.ipynb"
    solutions = exercise_cells(Notebook(path)) if path.exists() else {}
    for name, cell in exercise_cells(lesson).items():
        if name in solutions:
            wanted = imported(solutions[name].source) - imported(cell.source)
            if wanted:
                yield f"the cell of {name} must import {sorted(wanted)}"
    yield from stands_alone(lesson)


# --- rules for lessons and solutions -------------------------------------------


def wording(notebook: Notebook) -> Iterator[str]:
    for cell in notebook.cells:
        for pattern in (FORBIDDEN, EMOJI):
            for match in pattern.finditer(cell.source):
                yield f"{notebook.named(cell)}: {match[0]!r}"


def code_form(notebook: Notebook) -> Iterator[str]:
    for cell in notebook.code:
        length = len(lines(cell.source))
        if length == 0:
            yield f"{notebook.named(cell)}: empty"
        if length > CODE_LINES:
            yield f"{notebook.named(cell)}: {length} lines"
        for line in cell.source.splitlines():
            if len(line) > COLUMNS:
                yield f"{notebook.named(cell)}: {len(line)} columns: {line}"


def no_installs(notebook: Notebook) -> Iterator[str]:
    for cell in notebook.code:
        if re.search(r"^\s*[!%]\s*(pip|conda|cd)\b|sys\.path", cell.source, re.M):
            yield f"{notebook.named(cell)}: installs something or changes a path"


def output_form(notebook: Notebook) -> Iterator[str]:
    for cell in notebook.code:
        length = sum(len(lines(shown(output))) for output in cell.outputs)
        if length > OUTPUT_LINES:
            yield f"{notebook.named(cell)}: {length} lines of output"
        for output in cell.outputs:
            if match := MACHINE.search(shown(output)):
                yield f"{notebook.named(cell)}: shows {match[0]!r}, which differs"
            data = output.get("data", {})
            if "image/svg+xml" in data or PICTURE.search(data.get("text/html", "")):
                yield f"{notebook.named(cell)}: a picture must be PNG, with a text"
            if "image/png" in data and not data.get("text/plain", "").strip():
                yield f"{notebook.named(cell)}: the picture has no text/plain"


def speaks(notebook: Notebook) -> Iterator[str]:
    """A cell that prints, other than in a function, has printed something."""
    for cell in notebook.code:
        if not cell.outputs and prints(cell.source):
            yield f"{notebook.named(cell)}: prints, and its stored output is empty"


def prints(source: str) -> bool:
    """Tell whether code calls print outside of functions, in whatever block."""
    left: list[ast.AST] = [parsed(source)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            return True
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            left += ast.iter_child_nodes(node)
    return False


def executed(notebook: Notebook) -> Iterator[str]:
    counts = [cell.execution_count for cell in notebook.code]
    if counts != list(range(1, len(counts) + 1)):
        yield f"not executed in order, once: {counts}"
    for cell in notebook.code:
        raised = any(output.output_type == "error" for output in cell.outputs)
        if raised != ("raises-exception" in cell.metadata.get("tags", [])):
            yield f"{notebook.named(cell)}: raises-exception goes with an error only"


def metadata(notebook: Notebook) -> Iterator[str]:
    outer = notebook.node.metadata
    if set(outer) != {"kernelspec", "language_info"}:
        yield f"metadata {sorted(outer)}: make rerun leaves the two that are needed"
    if outer.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel must be python3"
    for cell in notebook.cells:
        if not set(cell.metadata) <= {"tags"}:
            yield f"{notebook.named(cell)}: metadata {sorted(cell.metadata)}"
        if not set(cell.metadata.get("tags", [])) <= TAGS:
            yield f"{notebook.named(cell)}: tags {cell.metadata.tags}"
        if re.search(r"^\s*#\s*(NBVAL|PYTEST)_", cell.source, re.M):
            yield f"{notebook.named(cell)}: use a tag, a comment breaks %%px"


def ignored(notebook: Notebook) -> Iterator[str]:
    """Cells that are not compared are listed here, and a compared one follows."""
    for place, cell in enumerate(notebook.code):
        if not is_ignored(cell):
            continue
        if (notebook.path.name, cell.id) not in IGNORED:
            yield f"{notebook.named(cell)} ({cell.id}) is not listed in this test"
        after = notebook.code[place + 1 : place + 2]
        if not after or is_ignored(after[0]) or not after[0].outputs:
            yield f"{notebook.named(cell)}: no compared cell with an output follows"


def is_ignored(cell) -> bool:
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def ids(notebook: Notebook) -> list[str]:
    """Return the exercises that the notebook checks, in its order."""
    return [name for cell in notebook.code for name in CHECK.findall(cell.source)]


def exercise_cells(notebook: Notebook) -> dict:
    """Return, for each exercise, the last %%px cell before its check."""
    cells, last = {}, None
    for cell in notebook.code:
        if cell.source.startswith("%%px"):
            last = cell
        for name in CHECK.findall(cell.source) if last else ():
            cells[name] = last
    return cells


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a cell, without its magics."""
    return ast.parse(
        "\n".join(line for line in lines(source) if line[0:1] not in ("%", "!"))
    )


def imported(source: str) -> set[str]:
    """Return the names that a cell binds by imports."""
    return {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(parsed(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def defined(source: str) -> set[str]:
    """Return the functions that a cell defines."""
    nodes = ast.walk(parsed(source))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def foreign(source: str) -> set[str]:
    """Return the names that a cell reads and neither binds nor finds in Python."""
    read, bound = set(), imported(source) | set(dir(builtins))
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
    return read - bound


# --- rules for solutions -------------------------------------------------------


def solution_form(notebook: Notebook) -> Iterator[str]:
    """Title, set-up, then for each exercise a heading, its code and its check; stop."""
    if notebook.cells[0].cell_type != "markdown":
        yield "the first cell must be the title"
    yield from setup_cell(notebook)
    yield from stop_cell(notebook)
    if EXERCISE.findall(notebook.prose) != ids(notebook):
        yield "headings and checks are not the same exercises"
    if not CHECK.search(notebook.code[-2].source):
        yield "something stands between the last check and the stop cell"


def solution_passes(notebook: Notebook) -> Iterator[str]:
    """A check says in its last line whether the answer is right."""
    for cell in notebook.code:
        if CHECK.search(cell.source) and not cell.outputs:
            yield f"{notebook.named(cell)}: the check shows nothing"


def stands_alone(notebook: Notebook) -> Iterator[str]:
    """The cell of an exercise runs in a world where at most its forerunners ran."""
    earlier: set[str] = set()
    for name, cell in exercise_cells(notebook).items():
        if unknown := foreign(cell.source) - earlier:
            yield f"the cell of {name} takes {sorted(unknown)} from other cells"
        earlier |= defined(cell.source)


SHARED_RULES = (
    wording,
    code_form,
    no_installs,
    output_form,
    speaks,
    executed,
    metadata,
    ignored,
)
LESSON_RULES = (
    title,
    opening,
    setup_cell,
    stop_cell,
    headings,
    size,
    exercises,
    solved,
    stubs,
    *SHARED_RULES,
)
SOLUTION_RULES = (
    solution_form,
    solution_passes,
    stands_alone,
    *SHARED_RULES,
)
