"""python -m course_utils read, its pre-commit hook, and what it shares with reports."""

import json
import re
from pathlib import Path

import pytest
import yaml
from fault_rows import ROWS

from course_utils.__main__ import main
from course_utils.read import branches, read_source
from course_utils.stuck import causes

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
HEAD = "import torch.distributed as dist\n"
WRONG = f"{HEAD}if rank == 0:\n    dist.barrier()\n"


def test_a_script_with_a_mistake(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(WRONG)
    assert main(["read", str(script)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{script}:3: branch: this stands under `if rank == 0:`")


def test_a_script_without_one(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(f"{HEAD}dist.barrier()\n")
    assert main(["read", str(script)]) == 0
    assert capsys.readouterr().out == ""


def test_a_notebook_is_read_by_cell(tmp_path, capsys):
    notebook = tmp_path / "a.ipynb"
    cell = {"cell_type": "code", "source": f"%%px\n{WRONG}"}
    notebook.write_text(json.dumps({"cells": [cell]}))
    assert main(["read", str(notebook)]) == 1
    assert f"{notebook}: cell 1, line 4: branch: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [("if rank ==:\n", "line 1: invalid syntax"), (None, "No such file or directory")],
)
def test_what_cannot_be_read_is_said(tmp_path, capsys, text, words):
    script = tmp_path / "train.py"
    if text is not None:
        script.write_text(text)
    assert main(["read", str(script)]) == 2
    assert words in capsys.readouterr().err


def test_the_hook_runs_the_command():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "python -m course_utils read"
    assert hook["id"] in (ROOT / "README.md").read_text()
    assert hook["types_or"] == ["python", "jupyter"]


def test_reports_and_reader_share_their_analysis():
    for name in ("condition", "leaves_before", "never_came", "responsible"):
        assert getattr(causes, name) is getattr(branches, name)


UNDER = re.compile(r"line (\d+) stands under (.+), so .* never came to (\w+);")


def test_what_a_report_calls_likely_the_reader_flags_before():
    """Every row of the fault matrix whose cause is a branch around a collective."""
    seen = 0
    for row in ROWS:
        found = UNDER.search(row.report)
        if found is None or "def " in row.cell or "elsewhere" in row.cell:
            continue
        if row.targets or found[3] not in row.cell or "thread" in row.cell:
            continue
        said = [f for f in read_source(f"{HEAD}{row.cell}") if f.rule == "branch"]
        grouped = "group=" in row.cell
        assert bool(said) != grouped, row.name
        seen += bool(said)
        for finding in said:
            assert finding.line == int(found[1])
            assert found[2] in finding.problem
    assert seen > 20


def test_the_lessons_are_read_without_an_alarm_that_is_not_meant(capsys):
    """Mistakes that lessons show on purpose are found; their cures are not."""
    lessons = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    main(["read", *map(str, lessons)])
    said = capsys.readouterr().out
    for line in said.splitlines():
        path, cell = re.match(r"(.*): cell (\d+), line", line).groups()
        cells = json.loads(Path(path).read_text())["cells"]
        code = [c for c in cells if c["cell_type"] == "code"][int(cell) - 1]
        tagged = "raises-exception" in code["metadata"].get("tags", ())
        assert tagged or "def mean_of_all" in "".join(code["source"]), line


def test_the_measured_sources_are_counted_rightly():
    """Addresses and counts of public sources, each alarm read by hand."""
    text = (Path(__file__).with_name("measured.txt")).read_text()
    archives = re.findall(r"^(\S+\.(?:whl|gz)) (\d+) (\d+)$", text, re.M)
    alarms = re.findall(r"^  \S+ (.+)$", text, re.M)
    total, number, wrong = map(
        int, re.search(r"In all: (\d+) files, (\d+) alarms, (\d+)", text).groups()
    )
    assert sum(int(files) for _, files, _ in archives) == total >= 100
    assert sum(int(found) for *_, found in archives) == number
    assert sum(len(rules.split()) for rules in alarms) == number
    assert wrong <= total / 20
