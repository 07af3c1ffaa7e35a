"""tools/rerun.py: what it stores, what it compares, what it leaves running."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import nbformat.v4 as nb4
import psutil
import pytest
import worlds

TOOL = Path(__file__).parents[2] / "tools" / "rerun.py"
LIMIT = 100  # seconds for one run of the tool
CLOCK = "import time\nprint(time.time())"
PARENT = "import os, pathlib\n_ = pathlib.Path('pid').write_text(str(os.getpid()))"


def rerun(path: Path, *options: str, env: dict | None = None):
    """Run the tool on the notebook at `path`; return the completed process."""
    return subprocess.run(
        [sys.executable, str(TOOL), str(path), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=env,
    )


def write(path: Path, *cells) -> Path:
    """Write a notebook as an editor might leave it: never run, full of metadata."""
    notebook = nb4.new_notebook(cells=list(cells))
    notebook.metadata = {"kernelspec": {"name": "mine", "display_name": "Mine"}}
    path.write_text(json.dumps(notebook))
    return path


def code(source: str, *tags: str):
    return nb4.new_code_cell(source, metadata={"tags": list(tags), "scrolled": True})


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """Return a notebook that the tool has executed and stored."""
    path = tmp_path_factory.mktemp("stored") / "small.ipynb"
    write(
        path,
        nb4.new_markdown_cell("# Small"),
        code("print(1)\nprint(2)\n3"),
        code("raise ValueError('as planned')", "raises-exception"),
        code(CLOCK, "nbval-ignore-output"),
        code(PARENT),
        code(""),
    )
    done = rerun(path)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


@pytest.mark.soak
def test_stored_form(stored):
    text = stored.read_text()
    notebook = json.loads(text)
    assert text == json.dumps(notebook, indent=1, sort_keys=True) + "\n"
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert "version" not in notebook["metadata"]["language_info"]
    cells = notebook["cells"][1:]
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, None]
    assert {key for cell in cells for key in cell["metadata"]} == {"tags"}
    assert cells[0]["outputs"][0]["text"] == ["1\n", "2\n"]
    assert cells[1]["outputs"][0]["evalue"] == "as planned"


@pytest.mark.soak
def test_the_kernel_has_ended(stored):
    pid = int(stored.with_name("pid").read_text())
    assert not psutil.pid_exists(pid)


@pytest.mark.soak
def test_check_accepts_what_was_stored_and_writes_nothing(stored):
    """The output of the tagged cell differs at every run, and does not count."""
    before = stored.read_bytes()
    done = rerun(stored, "--check")
    assert done.returncode == 0, done.stdout
    assert stored.read_bytes() == before


@pytest.mark.soak
def test_check_names_the_cell_that_differs(stored, tmp_path):
    notebook = json.loads(stored.read_text())
    notebook["cells"][1]["outputs"][0]["text"] = ["1\n", "7\n"]
    path = tmp_path / "changed.ipynb"
    path.write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")
    before = path.read_bytes()
    done = rerun(path, "--check", "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1
    kept = nbformat.read(tmp_path / "kept" / path.name, as_version=4)
    assert kept.cells[1].outputs[0].text == "1\n2\n"
    assert "cell 1 " in done.stdout
    assert "\n-7\n" in done.stdout
    assert "\n+2\n" in done.stdout
    assert done.stdout.count("cell ") == 1
    assert path.read_bytes() == before


def test_check_sees_metadata_and_form(tmp_path):
    tool = runpy.run_path(str(TOOL))
    plain = nb4.new_notebook(cells=[nb4.new_markdown_cell("# A", id="a")])
    kept = tool["normalise"](plain)
    assert tool["differences"](kept, kept) == []
    assert "kernelspec" in "".join(tool["differences"](plain, kept))


def test_ids_stay_and_a_missing_one_follows_from_the_place():
    tool = runpy.run_path(str(TOOL))
    notebook = nb4.new_notebook(cells=[code("1"), code("2")])
    notebook.cells[0]["id"] = "one"
    notebook = nbformat.from_dict(json.loads(json.dumps(notebook)))
    del notebook.cells[1]["id"]
    assert [cell.id for cell in tool["normalise"](notebook).cells] == ["one", "cell-1"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('by mistake')", "by mistake"),
        ("import time\ntime.sleep(600)", "timed out"),
        ("import os\nos._exit(3)", "Kernel died"),
    ],
)
def test_a_cell_that_fails_is_named_and_nothing_is_stored(tmp_path, source, words):
    path = write(tmp_path / "bad.ipynb", code(PARENT), code(source))
    before = path.read_bytes()
    done = rerun(path, "--cell-limit", "5")
    assert done.returncode == 1
    assert words in done.stdout
    assert "rerun.py" not in done.stderr
    assert path.read_bytes() == before
    pid = int((tmp_path / "pid").read_text())
    assert pid != os.getpid() and not psutil.pid_exists(pid)


def test_a_kernel_that_lost_its_port_starts_again(tmp_path):
    path = write(tmp_path / "small.ipynb", code("print(1)"))
    done = rerun(path, env=worlds.kernel_that_dies_once(tmp_path / "spec"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(path.read_text())["cells"][0]["outputs"][0]["text"] == ["1\n"]
    assert (tmp_path / "spec" / "been").exists()
