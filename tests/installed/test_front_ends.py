"""Other ways to run a notebook: papermill and jupytext.

`jupyter execute` runs all lessons in tests/notebooks; a terminal, a script and the
kernel of an editor stand in test_base.
"""

import os
import sys
from pathlib import Path

import nbformat
import nbformat.v4 as nb4
import pytest
from environments import run

pytestmark = pytest.mark.soak  # make soak installs what they need
QUIET = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
LAUNCH = "from course_utils import launch\nranks = launch(world_size)"
TOTAL = """\
%%px
import torch
from torch import distributed as dist
total = torch.tensor(dist.get_rank() + 1)
dist.all_reduce(total)
print(total.item())"""


def store(path: Path) -> None:
    """Store a notebook that has never run."""
    sources = ["world_size = 2", LAUNCH, TOTAL, "ranks.stop()"]
    cells = [nb4.new_code_cell(source) for source in sources]
    cells[0].metadata.tags = ["parameters"]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nb4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    nbformat.write(book, path)


def printed(path: Path) -> list[str]:
    """Return what the cells of a stored notebook printed."""
    outputs = [o for c in nbformat.read(path, 4).cells for o in c.get("outputs", [])]
    return [output.text for output in outputs if output.output_type == "stream"]


def test_papermill_with_another_world_size(tmp_path):
    pytest.importorskip("papermill", reason="make soak installs it")
    store(tmp_path / "a.ipynb")
    command = ["-m", "papermill", "a.ipynb", "b.ipynb", "-p", "world_size", "3"]
    done = run(Path(sys.executable), *command, folder=tmp_path, env=QUIET)
    assert done.returncode == 0, done.stderr
    assert printed(tmp_path / "b.ipynb") == ["[ranks 0–2] 6\n"]


def test_jupytext_there_and_back(tmp_path):
    """A notebook as a script, and the script executed as a notebook."""
    pytest.importorskip("jupytext", reason="make soak installs it")
    store(tmp_path / "a.ipynb")
    jupytext = ["-m", "jupytext", "--quiet"]
    there = run(
        Path(sys.executable),
        *jupytext,
        "--to",
        "py:percent",
        "a.ipynb",
        folder=tmp_path,
    )
    assert there.returncode == 0, there.stderr
    assert "# %%px\n" in (tmp_path / "a.py").read_text()
    back = [*jupytext, "--execute", "--output", "b.ipynb", "a.py"]
    done = run(Path(sys.executable), *back, folder=tmp_path, env=QUIET)
    assert done.returncode == 0, done.stderr
    assert printed(tmp_path / "b.ipynb") == ["[ranks 0–1] 3\n"]
