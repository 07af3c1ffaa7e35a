"""Every lesson as it stands, its ranks the tasks of a job of Slurm's on two nodes.

The environment says so, as an instructor sets it; nothing in the notebooks does. What
is stored was made on one host: EXCEPTED names the cells that tell the two apart.
"""

import copy
import runpy
import shlex
import sys
from types import SimpleNamespace

import page
import pytest
from lab import ROOT, Lab
from lesson_cases import LESSONS, cases
from lesson_rules import Notebook, is_ignored
from nbformat import NotebookNode
from stories import assert_clean

SOON = (2, 13)  # launch by hand, hosts; the others are for a release
LIMIT = 240.0  # seconds for one lesson
CACHES = "torch"  # how the names of torch's own folders begin
WORLD = "the world says on how many hosts it is"
NAMED = "a report names the hosts of ranks"
EXCEPTED = {  # by number of the lesson and id of the cell: why its output differs
    **{(number, "set-up"): WORLD for number in range(1, 13)},
    (1, "die"): NAMED,
    (1, "relaunch"): WORLD,
    (1, "where-verdict"): "the notebook and a rank, on another host, may share a pid",
    (2, "environment-verdict"): "LOCAL_RANK begins at 0 on each host",
    (2, "reach"): "ranks on several hosts listen beyond loopback",
    (2, "launch"): "ranks on several hosts listen beyond loopback",
    (4, "root-alone"): NAMED,
    (6, "snippet"): NAMED,
    (7, "missing"): NAMED,
    (7, "fails"): NAMED,
    (7, "dies"): NAMED,
    (13, "places"): "Slurm names its nodes otherwise",
    (13, "fit-check"): "no cable here has a rate",
    (13, "rings-check"): "no cable here has a rate",
    (13, "cross-check"): "no cable here has a rate",
}
LEFT_OUT = {  # cells that cannot run
    (13, cell): "cables of real hosts are out of the notebook's reach"
    for cell in ("unplug", "pulled", "plug", "kept")
}
ON_SLURM = {13: 'ranks = launch(4, engines="slurm", guard=False)'}  # as it says itself
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "rerun.py")))


@pytest.fixture(scope="module")
def shell(lab: Lab) -> str:
    """Return the words by which a shell finds Slurm, and a folder that all see."""
    (lab.folder / "notes").mkdir()
    named = "\n".join(page.BLOCKS["environment"].splitlines())
    found = [f"export {name}={value}" for name, value in lab.slurm_up().items()]
    return "\n".join([f"cd {lab.folder}/notes", *found, named, ""])


def prepared(lesson: Notebook) -> NotebookNode:
    """Return a lesson for Slurm: what differs is tagged, what cannot run is gone."""
    made, number = copy.deepcopy(lesson.node), lesson.number
    made.cells = [cell for cell in made.cells if (number, cell.id) not in LEFT_OUT]
    for cell in made.cells:
        if (number, cell.id) in EXCEPTED:
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), tool.IGNORE]
    if number in ON_SLURM:
        [set_up] = [cell for cell in made.cells if cell.id == "set-up"]
        set_up.source = set_up.source.replace(launch_of(set_up), ON_SLURM[number])
    return tool.normalise(made)


def launch_of(cell: NotebookNode) -> str:
    """Return the line that launches."""
    return next(line for line in cell.source.splitlines() if "launch(" in line)


@pytest.mark.parametrize("path", cases(SOON))
def test_outputs_are_those_stored(lab, shell, path):
    place = lab.folder / "notes" / path.name
    place.write_text(tool.text_of(prepared(Notebook(path))), encoding="utf-8")
    check = [sys.executable, ROOT / "tools" / "rerun.py", "--check", place.name]
    command = shlex.join(map(str, check))
    said = lab.run("login", f"{shell}{command} || true", LIMIT)
    place.unlink()
    assert said == f"{path.name}: same\n"
    assert_clean(lab)
    left = lab.files(lab.folder / "notes")
    assert [name for name in left if not name.startswith(CACHES)] == []


def test_what_is_excepted_is_there_and_compared_elsewhere():
    cells = {
        (lesson.number, cell.id): cell
        for lesson in map(Notebook, LESSONS)
        for cell in lesson.code
    }
    for name in (EXCEPTED | LEFT_OUT).keys() - {(13, "unplug")}:
        assert cells[name].outputs and not is_ignored(cells[name]), name
    named = 'launch(4, engines="slurm")'
    [lesson] = [Notebook(path) for path in LESSONS if path.name.startswith("13")]
    assert named in lesson.prose
