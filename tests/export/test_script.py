"""`python -m course_utils export`: a cell becomes code, or a comment that says why."""

import json
import subprocess
import sys

import pytest

from course_utils.__main__ import main
from course_utils.export import notebook
from course_utils.export.script import Cell, NotForScripts, World, launched, rank_code

pytestmark = pytest.mark.unit


def px(body: str, **more) -> Cell:
    """Return a cell of all ranks."""
    return Cell("name", f"%%px\n{body}", **more)


def code_of(cell: Cell) -> str:
    return rank_code(cell, lambda text: [int(part) for part in text.split(",")])


def cells(*sources: str) -> list[dict]:
    """Return code cells as a notebook file holds them."""
    return [
        {"cell_type": "code", "id": f"c{i}", "source": source, "metadata": {}}
        for i, source in enumerate(sources)
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("x = 1", "x = 1"),
        ("x", "show(x)"),
        ("x = 1\nx, 2", "x = 1\nshow((x, 2))"),
        ("(x, 2)", "show((x, 2))"),
        ("x  # why", "show(x)  # why"),
        ("f(\n    x,\n)", "show(f(\n    x,\n))"),
        ("print(x)", "print(x)"),
        ("dist.all_gather(b, x)", "dist.all_gather(b, x)"),
        ("dist.get_rank(), 1", "show((dist.get_rank(), 1))"),
        ("dist.all_gather.unguarded(b, x)", "dist.all_gather(b, x)"),
        ("for i in x:\n    i", "for i in x:\n    i"),
        ("x;", "x;"),
    ],
)
def test_the_last_value_is_printed(body, code):
    assert code_of(px(body)) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import os\n%matplotlib inline\nx = 1", "x = 1"),
        ("import os\nif x:\n    !ls", "if x:"),
        ("import os\nos.path?\nx", "show(x)"),
        ("import os\n?os\nx", "show(x)"),
    ],
)
def test_a_line_for_notebooks_leaves_the_others(body, code):
    rows = code_of(px(body)).split("\n")
    assert rows[0] == "import os" and code in rows
    assert [row.strip()[:18] for row in rows if "left out" in row] == [
        "pass  # left out: "
    ]


def test_text_that_looks_like_a_line_for_notebooks_stays():
    body = 'x = """\n%d items\n! done?\n"""'
    assert code_of(px(body)) == body


def test_a_cell_that_is_left_out_leaves_its_imports_and_functions():
    body = "import os\ndef f():\n    return os\na, b = f, f.unguarded"
    text = notebook.script_of(cells(f"# why\n%%px\n{body}"), "n.ipynb")
    assert "it is about the guard" in text
    assert "\nimport os\ndef f():\n    return os\n" in text


def test_a_cell_below_a_comment_runs_on_the_ranks():
    assert code_of(Cell("n", "# why\n\n%%px\nx")) == "show(x)"


def test_targets_become_a_condition():
    cell = Cell("n", '%%px --targets 0,2\nx = """a\nb"""\nif x:\n    x')
    expected = 'if RANK in (0, 2):\n    x = """a\nb"""\n    if x:\n        x'
    assert code_of(cell) == expected
    assert code_of(Cell("n", "%%px --targets 3\nx")) == "if RANK in (3,):\n    show(x)"


def test_a_cell_stored_without_output_prints_nothing():
    assert code_of(px("f(x)", quiet=True)) == "f(x)"


def test_what_precedes_a_failure_is_kept():
    cell = px("x = 1\n\nif x:\n    fail()\ny = 2", fails=True, report="E at line 5: f")
    kept = "x = 1\n# Left out, since it fails on purpose:"
    assert code_of(cell) == f"{kept}\n# if x:\n#     fail()\n# y = 2"
    late = Cell("n", f"%%px\n\n{cell.source[5:]}", True, "E at line 6: f")
    assert code_of(late) == code_of(cell)
    table = "the ranks disagree\n  rank  line\n  0     all_gather  3\n  1     x  3"
    assert code_of(px("x = 1\nf(x)", fails=True, report=table)).startswith("x = 1\n#")


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (px("f()", fails=True, report="E at line 2: f()"), "fails on purpose"),
        (px("x = 1\nf()", fails=True, report="no line"), "fails on purpose"),
        (px("x = 1\ndie()", fails=True, report="died at line 3"), "fails on purpose"),
        (px("x = %time f()"), "not plain Python"),
        (px("# nothing"), "no statement"),
        (px("a, b = f, f.unguarded"), "about the guard"),
        (px("x = 1; x"), "several statements in one line"),
        (Cell("n", "%%px --noblock\nx"), "options that only a notebook knows"),
    ],
)
def test_what_is_left_out_says_why(cell, why):
    with pytest.raises(NotForScripts, match=why):
        code_of(cell)


def test_launch_is_read():
    assert launched("x = 1") is None
    assert launched("ranks = launch()") == World()
    assert launched("launch(3, init=False)") == World(3, init=False)
    assert launched("launch(2)\nlaunch(world_size=5, backend='mpi')") == World(5, "mpi")
    with pytest.raises(NotForScripts, match="computed"):
        launched("launch(n)")


def test_a_world_of_another_size_is_left_out():
    text = notebook.script_of(
        cells("launch(4)", "%%px\na", "launch(2)", "%%px\nb", "launch(4)", "%%px\nc"),
        "x.ipynb",
    )
    compile(text, "x", "exec")
    assert "\nshow(a)" in text and "\nshow(c)" in text
    assert "\nshow(b)" not in text and "#     b" in text
    assert text.count("init_process_group") == 2


def write(path, content) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not there"),
        ("no json", "cannot be read as one"),
        ({"cells": "text"}, "cannot be read as one"),
        ({}, "cannot be read as one"),
        ({"cells": cells("x = 1")}, "has no %%px cell"),
        ({"cells": []}, "has no %%px cell"),
    ],
)
def test_bad_input_is_told(tmp_path, capsys, content, said):
    path = tmp_path / "x.ipynb"
    if content is not None:
        write(path, content)
    target = tmp_path / "x.py"
    assert main(["export", str(path), "-o", str(target)]) == 2
    assert said in capsys.readouterr().err
    assert not target.exists()


def test_a_folder_is_no_notebook(tmp_path, capsys):
    assert main(["export", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_script_is_not_replaced_unasked(tmp_path, capsys):
    path = write(tmp_path / "x.ipynb", {"cells": cells("launch(2)", "%%px\n1")})
    target = tmp_path / "out.py"
    target.write_text("mine")
    assert main(["export", path, "-o", str(target)]) == 2
    assert target.read_text() == "mine" and "--force" in capsys.readouterr().err
    assert main(["export", path, "-o", str(target), "--force"]) == 0
    assert f"torchrun --nproc-per-node=2 {target}" in capsys.readouterr().out


def test_too_few_processes_are_told(tmp_path):
    path = write(tmp_path / "x.ipynb", {"cells": cells("launch(2)", "%%px\n1")})
    target = tmp_path / "out.py"
    assert main(["export", path, "-o", str(target)]) == 0
    done = subprocess.run(
        [sys.executable, str(target)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "torchrun --nproc-per-node=2" in done.stderr
