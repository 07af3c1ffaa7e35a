"""A second package called course_utils is an error that names both."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import course_utils_plugins
from course_utils import launch
from course_utils.world import alone

pytestmark = pytest.mark.unit
OURS = str(Path(alone.__file__).parents[1] / "__init__.py")


@pytest.fixture(params=["course_utils/__init__.py", "course_utils.py"])
def theirs(request, tmp_path) -> Path:
    """Return another course_utils, a package or a module."""
    path = tmp_path / request.param
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def test_launch_names_both(theirs, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError) as error:
        launch(2)
    assert f"  {OURS} (in use)\n  {theirs}\n" in str(error.value)


def test_one_that_is_found_twice_is_one(tmp_path):
    """A checkout in the folder, and the same as an editable installation."""
    (tmp_path / "link").symlink_to(Path(OURS).parents[1])
    alone.check_alone([str(Path(OURS).parents[1]), str(tmp_path / "link"), ""])


def test_a_folder_of_that_name_is_no_package(tmp_path):
    (tmp_path / "course_utils").mkdir()
    alone.check_alone([str(tmp_path), str(tmp_path / "nowhere")])


def test_where_theirs_comes_first_ours_still_says_so(theirs, tmp_path, monkeypatch):
    assert course_utils_plugins.in_the_way() == ""
    monkeypatch.syspath_prepend(str(tmp_path))
    said = course_utils_plugins.in_the_way()
    assert f"  {theirs}\n  {OURS} (of this course)\n" in said


def test_a_notebook_hears_of_it_below_the_error(theirs, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks = {}
    shell = SimpleNamespace(events=SimpleNamespace(register=hooks.__setitem__))
    course_utils_plugins.load_ipython_extension(shell)
    for name, count in (("course_utils", 1), ("json", 0), (None, 0)):
        error = ImportError("cannot import name 'launch'", name=name)
        hooks["post_run_cell"](SimpleNamespace(error_in_exec=error))
        assert capsys.readouterr().err.count(OURS) == count


def test_the_package_imports_nothing_that_is_not_asked_for():
    """So that pytest and every rank start as fast as they can."""
    code = "import sys, course_utils, course_utils_plugins\nprint(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not {"torch", "IPython", "ipyparallel", "pytest"} & set(said.stdout.split())
    assert "course_utils.face" in said.stdout
