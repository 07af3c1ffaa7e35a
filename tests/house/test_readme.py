"""What the README says of the lessons is what the lessons say of themselves."""

import json
import re
from pathlib import Path

import pytest

from course_utils.measure.summary import Summary

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
ROW = re.compile(
    r"^\| (?P<number>\d+) \| \[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\) \| "
    r"(?P<minutes>\d+) min \|",
    re.M,
)


def head(lesson: Path) -> tuple[str, str, str]:
    """Return number, title and minutes that a lesson states."""
    cells = json.loads(lesson.read_text())["cells"]
    text = "".join(cells[0]["source"])
    number, title = re.match(r"# (\d+) · (.+)", text).groups()
    return number, title, re.search(r"\*\*Time\*\* (\d+) min", text)[1]


def test_the_table_lists_every_lesson():
    listed = {
        row["link"]: (row["number"], row["title"], row["minutes"])
        for row in ROW.finditer(README)
    }
    assert listed == {
        lesson.relative_to(ROOT).as_posix(): head(lesson) for lesson in LESSONS
    }


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_commands_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert named and named <= targets


def test_the_table_of_costs_is_the_generated_one():
    assert Summary(4, 2**20, {}).markdown().strip() in README
