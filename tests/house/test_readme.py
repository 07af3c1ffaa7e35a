"""What the README says of the lessons is what the lessons say of themselves."""

import json
import re
import subprocess
from pathlib import Path

import address
import pytest
import readme_picture
from PIL import Image

from course_utils.measure.summary import Summary

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COLUMNS = 39  # of code
MOST = 200_000  # bytes of the animation
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
    costs = (ROOT / "book" / "costs.md").read_text()
    assert Summary(4, 2**20, {}).markdown().strip() in costs


def test_it_opens_with_a_picture_two_sentences_and_where_to_go():
    head, *_ = README.partition("\n## ")
    picture, run, read, take = map(
        head.index, ("![Four ranks", "[Run it in a browser]", "[Read the book]", "make")
    )
    assert picture < run < read < take
    between = head[head.index("\n", picture) : head.rindex("**", 0, run)]
    assert len(re.findall(r"\.\s", between)) == 2
    assert head.count("```") == 2


def test_nothing_scrolls_sideways_on_a_phone():
    """GitHub shows some 39 columns of code on a screen of 390 pixels."""
    blocks = re.findall(r"```\w*\n(.*?)```", README, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if len(line) > COLUMNS] == []
    rows = [line for line in README.splitlines() if line.startswith("|")]
    assert rows and [row for row in rows if row.count(" | ") > 2] == []


def test_the_address_stands_in_one_place():
    """tools/address.py writes what pyproject.toml says wherever it is needed."""
    owner, name = address.current().split("/")
    for path in ("README.md", "CITATION.cff", ".github/ISSUE_TEMPLATE/config.yml"):
        text = (ROOT / path).read_text()
        own = re.findall(
            r"https://(?:github\.com|codespaces\.new)/([\w.-]+/[\w.-]+)", text
        )
        strangers = {"computationalmodelling/nbval"}
        assert own and set(own) - strangers == {f"{owner}/{name}"}
    assert f"https://{owner}.github.io/{name}/" in README
    assert f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD" in README


def test_a_new_address_is_written_everywhere(tmp_path, monkeypatch):
    files = {"a.md": "x https://github.com/ORG/ranks y", "b.md": "ORG.github.io/ranks"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(address, "ROOT", tmp_path)
    changed = address.move("ORG/ranks", "ana/course")
    assert [path.name for path in changed] == ["a.md", "b.md"]
    assert (tmp_path / "a.md").read_text() == "x https://github.com/ana/course y"
    assert (tmp_path / "b.md").read_text() == "ana.github.io/course"


def test_the_animation_moves_and_is_small():
    with Image.open(readme_picture.PICTURE) as image:
        assert image.n_frames > 10
        assert image.info["loop"] == 0
    assert readme_picture.PICTURE.stat().st_size < MOST
    (said,) = readme_picture.SHOWN.findall(README)
    assert "messages in 3 steps" in said
