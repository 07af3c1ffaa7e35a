"""`python -m course_utils progress`: whatever is handed in is a row, not an end."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import worlds

from course_utils.__main__ import main
from course_utils.classroom import collecting, progress, submission
from course_utils.classroom.collecting import Ended, Row, row

SOLVED = Path(__file__).parents[2] / "notebooks" / "solutions" / "03_solutions.ipynb"
PROGRESS = [sys.executable, "-m", "course_utils", "progress"]
CELL_LIMIT, LIMIT = 30, 250  # seconds
TITLE = "# 3 · Gather equal shards everywhere"
LAUNCH = "from course_utils import check, launch\nranks = launch(4)"
CHECK_1, CHECK_2 = 'check("3.1", ranks)', 'check("3.2", ranks)'
IMPORTS = "%%px\nimport os\nimport torch\nimport torch.distributed as dist\n"
RIGHT = (
    "def gather_all(shard):\n"
    "    full = [torch.empty_like(shard) for _ in range(dist.get_world_size())]\n"
    "    dist.all_gather(full, shard)\n"
    "    return full"
)
STUB = "def {}(shard):\n    return None"
OWN_CHECK = "def check(*_):\n    return True"

NOTEBOOKS = {  # code cells, then what each exercise is said to be, and why
    "mixed": (
        [
            LAUNCH,
            f"{IMPORTS}def gather_all(shard):\n    return [shard]",
            OWN_CHECK,
            CHECK_1,
            f"{IMPORTS}def ring_all_gather(shard):\n    return 1 / 0",
            f"assert {CHECK_2}",
        ],
        ("wrong", "returned nothing but their own"),
        ("raised", "ZeroDivisionError"),
    ),
    "loops": (
        [
            LAUNCH,
            f"{IMPORTS}def gather_all(shard):\n    while True:\n        pass",
            f"%%time\n{CHECK_1}",
        ],
        ("stuck", "never came to an end"),
        ("not checked", "no cell checks it"),
    ),
    "waits": (
        [
            LAUNCH,
            "%%px\nif rank == 0:",
            f"{IMPORTS}if dist.get_rank() == 0:\n    dist.barrier()",
            f"{IMPORTS}{RIGHT}",
            "import course_utils\nfor one in ['3.1']:\n"
            "    verdict = course_utils.check(one, ranks)",
            "%%px\ndef ring_all_gather(shard):\n"
            "    dist.recv(shard, (dist.get_rank() - 1) % dist.get_world_size())",
            CHECK_2,
        ],
        ("correct", ""),
        ("stuck", ""),
    ),
    "kills_its_rank": (
        [
            LAUNCH,
            f"{IMPORTS}def gather_all(shard):\n"
            "    os._exit(3) if dist.get_rank() == 1 else dist.barrier()",
            CHECK_1,
            CHECK_2,
        ],
        ("died", "ended the process of rank 1"),
        ("missing", "has not run there"),
    ),
    "kills_its_kernel": (
        [LAUNCH, f"{IMPORTS}{RIGHT}", CHECK_1, "import os\nos._exit(7)", CHECK_2],
        ("correct", ""),
        ("died", "the notebook's kernel ended (7) in code cell 4"),
    ),
    "sleeps": (
        [
            LAUNCH,
            f"import time\ntime.sleep(1000)\n{CHECK_2}",
            f"{IMPORTS}{STUB.format('gather_all')}",
            CHECK_1,
        ],
        ("not started", "gather_all returns None"),
        ("out of time", f"code cell 2 took more than {CELL_LIMIT} s"),
    ),
    "no_world": (
        [f"from course_utils import check\n{CHECK_1}", "exit()", f"{LAUNCH}; x ="],
        ("not checked", "code cell 1: NameError: name 'ranks' is not defined"),
        ("not checked", "no cell checks it"),
    ),
}


def write(path: Path, cells: list[str], title: str = TITLE) -> Path:
    """Write a notebook of one text and some code cells."""
    first = {"cell_type": "markdown", "source": title, "metadata": {}}
    code = [
        {"cell_type": "code", "source": source.splitlines(True), "metadata": {}}
        for source in cells
    ]
    path.write_text(json.dumps({"cells": [first, *code], "nbformat": 4}))
    return path


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory) -> tuple[dict, str]:
    """Run all notebooks at once; return the rows of the CSV file, and the table."""
    folder = tmp_path_factory.mktemp("handed-in")
    for name, (cells, *_) in NOTEBOOKS.items():
        write(folder / f"{name}.ipynb", cells)
    (folder / "solved.ipynb").write_text(SOLVED.read_text())
    (folder / "empty.ipynb").write_text('{"cells": []}')
    (folder / "text.ipynb").write_text("dear teacher,")
    stored, env = folder / "found.csv", worlds.environment()
    words = [folder, folder / "nowhere.ipynb", "--why", "--csv", stored]
    words += ["--jobs", "3", f"--cell-limit={CELL_LIMIT}"]
    done = subprocess.run(
        [*PROGRESS, *words], capture_output=True, text=True, timeout=LIMIT, env=env
    )
    assert done.returncode == 0, done.stderr
    assert worlds.left_of(env[worlds.MARK]) == []
    with stored.open(encoding="utf-8", newline="") as file:
        rows = {
            (Path(line["notebook"]).stem, line["exercise"]): line
            for line in csv.DictReader(file)
        }
    return rows, done.stdout


@pytest.mark.timeout(LIMIT + 50)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_a_row(handed_in, name):
    rows, _ = handed_in
    _, *expected = NOTEBOOKS[name]
    for exercise, (state, why) in zip(("3.1", "3.2"), expected, strict=True):
        found = rows[name, exercise]
        assert found["state"] == state, found
        assert why in found["why"], found


def test_solutions_are_correct(handed_in):
    rows, _ = handed_in
    assert rows["solved", "3.1"]["state"] == rows["solved", "3.2"]["state"] == "correct"


def test_what_is_no_notebook_is_a_row(handed_in):
    rows, _ = handed_in
    assert rows["text", ""]["state"] == rows["nowhere", ""]["state"] == "unreadable"
    assert "cannot be read as one" in rows["text", ""]["why"]
    assert "is not there" in rows["nowhere", ""]["why"]
    assert rows["empty", ""]["state"] == "not checked"
    assert "no title of a lesson" in rows["empty", ""]["why"]


def test_the_table_has_them_all(handed_in):
    _, said = handed_in
    shown, _, why = said.partition("\n\n")
    first, *lines, last = shown.splitlines()
    assert first.split() == ["notebook", "3.1", "3.2"]
    assert len(lines) == len(NOTEBOOKS) + 4
    assert last.split() == ["correct,", "of", str(len(lines)), "3", "1"]
    assert "kills_its_kernel.ipynb 3.2 died: the notebook's kernel ended (7)" in why


STUBBORN = """
import subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True
)
while True:
    try:
        time.sleep(1)
    except KeyboardInterrupt:
        pass
"""


def test_a_notebook_that_takes_no_interrupt(tmp_path, capsys):
    path = write(tmp_path / "stubborn.ipynb", [STUBBORN, CHECK_1])
    mark = worlds.environment()[worlds.MARK]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(worlds.MARK, mark)
        patch.setattr(collecting, "PATIENCE", 1.0)
        words = ["progress", str(path), "--cell-limit", "3", "--limit", "6", "--why"]
        assert main(words) == 0
    said = capsys.readouterr().out
    assert said.count("out of time") == 4  # two in the table, two with reasons
    assert "the notebook took more than 6 s in code cell 1" in said
    assert worlds.left_of(mark) == [], "processes of a session of their own, too"


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_early_end_leaves_nothing(tmp_path, number, status):
    path = write(tmp_path / "sleeps.ipynb", [LAUNCH, "import time\ntime.sleep(100)"])
    env = worlds.environment()
    command = [*PROGRESS, path, write(tmp_path / "more.ipynb", []), "--jobs", "1"]
    run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert worlds.wait_for(lambda: len(worlds.marked(env[worlds.MARK])) > 6)
    run.send_signal(number)
    said, _ = run.communicate(timeout=worlds.LIMIT)
    assert run.returncode == status
    assert worlds.left_of(env[worlds.MARK]) == []
    if number == signal.SIGINT:
        assert said.splitlines()[0] == "notebook"


# --- without a process ----------------------------------------------------------


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "asked"),
    [
        (CHECK_1, ["3.1"]),
        (f"assert {CHECK_1}, 'no'", ["3.1"]),
        (f"%%time\n{CHECK_1}", ["3.1"]),
        (f"%px x = 1\nif {CHECK_1} and {CHECK_2}:\n    pass", ["3.1", "3.2"]),
        ("course_utils.check('3.1', ranks)", ["3.1"]),
        ("verify('3.1', ranks)", ["3.1"]),
        ("check(name, ranks); other('3.1')", []),
        (f"# {CHECK_1}", []),
        ("check(", []),
    ],
)
def test_the_checks_of_a_cell(source, asked):
    assert list(submission.ids(source, {"check", "verify"})) == asked


@pytest.mark.unit
def test_what_a_notebook_is_expected_to_check(tmp_path):
    renamed = "from course_utils import check as verify, launch\nverify('9.9', r)"
    path = write(tmp_path / "x.ipynb", [renamed])
    handed_in = submission.read(path)
    assert handed_in.lesson == "3"
    assert handed_in.expected(["2.1", "3.1", "3.2"]) == ["3.1", "3.2", "9.9"]
    other = submission.read(write(tmp_path / "y.ipynb", [CHECK_1], "# Mine"))
    assert other.expected(["2.1", "3.1", "3.2"]) == ["3.1"]


@pytest.mark.unit
def test_the_last_verdict_counts_and_survives():
    events = [
        {"cell": 4},
        {"id": "3.1", "state": "wrong", "why": "it is short"},
        {"cell": 9},
        {"id": "3.1", "state": "correct", "why": ""},
        {"began": "3.2"},
    ]
    ended = Ended("died", "the notebook's kernel ended (-9)")
    assert row("a", "3.1", events, ended) == Row("a", "3.1", "correct")
    lost = row("a", "3.2", events, ended)
    assert lost == Row("a", "3.2", "died", f"{ended.why} in code cell 9")
    assert row("a", "3.1", [], ended).state == "died"


@pytest.mark.unit
def test_the_table_of_two_lessons():
    rows = [
        Row("a", "10.1", "correct"),
        Row("b", "9.1", "wrong", "it is short"),
        Row("c", "", "unreadable", "it is text"),
    ]
    assert progress.table(rows).splitlines() == [
        "notebook       9.1         10.1",
        "a                          correct",
        "b              wrong",
        "c              unreadable",
        "correct, of 3  0           1",
    ]
    assert progress.table(rows[2:]).splitlines() == ["notebook", "c         unreadable"]
    assert progress.reasons(rows) == [
        "b 9.1 wrong: it is short",
        "c unreadable: it is text",
    ]


@pytest.mark.unit
def test_a_spreadsheet_computes_nothing(tmp_path):
    progress.store(tmp_path / "x.csv", [Row("=A1", "3.1", "wrong", 'a, "b"\n-1')])
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.reader(file))[1] == ["'=A1", "3.1", "wrong", 'a, "b"\n-1']


@pytest.mark.unit
def test_folders_are_searched(tmp_path):
    inside = tmp_path / "anna" / "3.ipynb"
    for path in (inside, tmp_path / "anna" / ".ipynb_checkpoints" / "3.ipynb"):
        path.parent.mkdir(parents=True)
        path.write_text("")
    named = tmp_path / "text.txt"
    assert list(progress.found([named, tmp_path])) == [named, inside]
    inside.unlink()
    with pytest.raises(ValueError, match="is a folder without any"):
        list(progress.found([tmp_path]))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jobs", "0"], "--jobs: expected at least 1, got 0"),
        (["--csv", "/no/such/folder/x.csv"], "No such file or directory"),
    ],
)
def test_options_that_cannot_work_are_told_first(words, said, capsys):
    assert main(["progress", "x.ipynb", *words]) == 2
    assert said in capsys.readouterr().err
