"""`python -m course_utils handout`: lessons for learners, and nothing else."""

import ast
import json
import zipfile
from pathlib import Path

import pytest

from course_utils.__main__ import main
from course_utils.classroom import handout
from course_utils.classroom.submission import Submission, read
from course_utils.classroom.twin import twin

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def of(*sources: str, kind: str = "code") -> Submission:
    return Submission(tuple({"cell_type": kind, "source": s} for s in sources))


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> dict[str, str]:
    """Return the files of the archive of all lessons."""
    path = tmp_path_factory.mktemp("handout") / "all.zip"
    assert main(["handout", "-o", str(path)]) == 0
    with zipfile.ZipFile(path) as found:
        assert found.testzip() is None
        return {name: found.read(name).decode() for name in found.namelist()}


def test_every_lesson_is_in_it_twice(archive):
    expected = {f"course/{path.name}" for path in LESSONS}
    expected |= {f"course/plain/{path.stem}.py" for path in LESSONS}
    expected |= {"course/LICENSE", "course/LICENSE-text"}
    if (ROOT / "notebooks" / "cheat_sheet.md").exists():
        expected.add("course/cheat_sheet.md")
    assert set(archive) == expected
    assert list(archive) == sorted(archive)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_as_nobody_has_run_it(archive, path):
    given = json.loads(archive[f"course/{path.name}"])
    stored = json.loads(path.read_text())
    for cell in stored["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    assert given == stored


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_twin_is_python_and_has_every_line(archive, path):
    text = archive[f"course/plain/{path.stem}.py"]
    ast.parse(text)
    assert text.startswith(f"# To run this, open {path.name}: ")
    shown = "".join(text.split())
    for cell in read(path).cells:
        for line in cell["source"].splitlines():
            assert "".join(line.split()) in shown, line


def test_no_solution_is_handed_out(archive):
    assert not [name for name in archive if "solution" in name]
    plain = "".join(text for name, text in archive.items() if name.endswith(".py"))
    folder = ROOT / "notebooks" / "solutions"
    cells = [cell for path in folder.glob("*.ipynb") for cell in read(path).code]
    solved = [cell.partition("\n")[2] for cell in cells if "\ndef " in cell]
    assert len(solved) >= len(LESSONS)
    assert not [code for code in solved if code in plain]


def test_the_same_lessons_make_the_same_archive(tmp_path):
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    assert main(["handout", "-o", str(one)]) == 0
    assert main(["handout", *map(str, reversed(LESSONS)), "-o", str(other)]) == 0
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 1", "# %%\nx = 1"),
        ("%%px\nx = 1", "# %% on the ranks: %%px\nx = 1"),
        ("# why\n%%px --targets 2\nx", "# %% on the ranks: %%px --targets 2\n# why\nx"),
        ("%%px", "# %% on the ranks: %%px"),
        ("%%time\nx = 1", "# %% %%time\nx = 1"),
        ("%%bash\nls | wc", "# %% %%bash\n# ls | wc"),
        ("%px x = 1\ny", "# %%\n# %px x = 1\ny"),
        ("!ls\nranks?\n?ranks", "# %%\n# !ls\n# ranks?\n# ?ranks"),
        ("if x:\n    !ls", "# %%\nif x:\n    pass  # !ls"),
        ('x = """\n%d\n"""', '# %%\nx = """\n%d\n"""'),
        ("x = %time f()\ny", "# %%\n# x = %time f()\n# y"),
        ("if rank == 0\n    x", "# %%\n# if rank == 0\n#     x"),
        ("", "# %%"),
    ],
)
def test_a_cell_as_plain_python(source, text):
    found = twin(of(source), "n.ipynb")
    ast.parse(found)
    assert found.partition("\n\n")[2] == text + "\n"


def test_text_is_a_comment():
    found = twin(of("# A title\n\ntext", kind="markdown"), "n.ipynb")
    assert found.endswith("\n\n# %% [markdown]\n# # A title\n#\n# text\n")


def test_some_lessons_only(tmp_path, capsys):
    path = tmp_path / "x.zip"
    assert main(["handout", str(LESSONS[2]), "-o", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: 1 lesson, ")
    with zipfile.ZipFile(path) as found:
        assert f"course/{LESSONS[2].name}" in found.namelist()
        assert f"course/{LESSONS[1].name}" not in found.namelist()
    assert main(["handout", str(LESSONS[2]), "-o", str(path)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert main(["handout", str(LESSONS[2]), "-o", str(path), "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.ipynb"], "nowhere.ipynb is not there"),
        ([str(ROOT / "tests")], "is a folder without any"),
        ([str(ROOT / "notebooks" / "solutions")], "is a solution, and these stay"),
        ([str(LESSONS[0]), str(LESSONS[0])], "have one name"),
        ([str(ROOT / "README.md")], "cannot be read as one"),
    ],
)
def test_what_cannot_be_handed_out_is_told(tmp_path, capsys, words, said):
    path = tmp_path / "x.zip"
    assert main(["handout", *words, "-o", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert not path.exists()


def test_without_a_checkout_lessons_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(handout, "LESSONS", tmp_path / "notebooks")
    assert main(["handout", "-o", str(tmp_path / "x.zip")]) == 2
    assert "notebooks is not there" in capsys.readouterr().err
