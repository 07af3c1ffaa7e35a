"""The guards in somebody else's repository: installed from our wheel, and asked for.

What they find is tested in tests/notebooks/test_nb_guard.py.
"""

import re
from pathlib import Path

import nbformat.v4 as nb4
import pytest
from environments import ROOT, environment, run

pytestmark = pytest.mark.soak  # it builds an environment
HANG = "import time\ntime.sleep(600)"
EXAMPLE = re.compile(r"```toml\n(\[tool\.pytest.*?)```", re.S)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Return the Python of an environment with the wheel and its extra "test"."""
    return environment(tmp_path_factory.mktemp("test") / "env", wheel, "test")


@pytest.fixture
def repository(tmp_path) -> Path:
    """Return a repository with nothing but the settings that README shows."""
    (example,) = EXAMPLE.findall((ROOT / "README.md").read_text())
    assert len(example.splitlines()) == 5
    (tmp_path / "pyproject.toml").write_text(example)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def store(repository: Path, *sources: str) -> None:
    """Store a notebook whose cells have run and said nothing."""
    cells = [nb4.new_code_cell(source, execution_count=1) for source in sources]
    text = nb4.writes(nb4.new_notebook(cells=cells))
    (repository / "notebooks" / "a.ipynb").write_text(text)


def test_the_example_runs_a_notebook_with_ranks(python, repository):
    launch = "from course_utils import launch\nranks = launch(2)"
    store(repository, launch, "%%px\nx = 1", "ranks.stop()")
    done = run(python, "-m", "pytest", folder=repository)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_example_finds_a_cell_that_hangs(python, repository):
    store(repository, "x = 1", HANG, "x = 2")
    done = run(python, "-m", "pytest", "--nbval-cell-timeout=3", folder=repository)
    assert done.returncode == 1
    assert "a.ipynb, Cell 1: the cell was not done after 3 s" in done.stdout
    assert "2 failed, 1 passed" in done.stdout


def test_nobody_is_guarded_who_did_not_ask(python, tmp_path):
    """And nothing of ours is imported."""
    code = "import sys\ndef test_a():\n    assert 'course_utils' not in sys.modules"
    (tmp_path / "test_a.py").write_text(code)
    done = run(python, "-m", "pytest", "-q", folder=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_without_nbval_the_extra_is_named(python, tmp_path):
    done = run(python, "-m", "pytest", "-p", "no:nbval", "--nb-guard", folder=tmp_path)
    assert "pip install 'course-utils[test]'" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


def test_another_course_utils_disturbs_only_those_who_ask(python, tmp_path):
    """`python -m pytest` looks into the repository first."""
    theirs = tmp_path / "course_utils" / "__init__.py"
    theirs.parent.mkdir()
    theirs.touch()
    (tmp_path / "test_a.py").write_text("def test_a():\n    import course_utils")
    assert "1 passed" in run(python, "-m", "pytest", folder=tmp_path).stdout
    said = run(python, "-m", "pytest", "--nb-guard", folder=tmp_path).stderr
    assert "two packages are called course_utils" in said
    assert str(theirs) in said and "site-packages/course_utils" in said
