"""Every lesson, exported as a script, prints under torchrun what the notebook shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import worlds
from lesson_cases import cases, number

from course_utils.__main__ import main
from course_utils.engines import hosts
from course_utils.engines.namespaces import Network
from course_utils.export import notebook

TEST = (7,)  # the one with faults
SOAK = (3, 6, 9, 11, 12, 13)  # the others are written as these are
WATCHED = (12,)  # as the lesson says
WATCH = ("-m", "course_utils.watched", "--guard")
ON_HOSTS = (13,)  # the one that prints where its ranks are
LIMIT = 240  # seconds for one lesson
TAG = re.compile(r"\[ranks? ([\d–, ]+)\](?: (.*))?")
UNLIKE = {}  # cells whose output is another in a script: (lesson, cell), and why


def torchrun(script: list[str], folder: Path, processes: int = 4) -> list[str]:
    """Run a script in another folder; return what every rank printed.

    script: its path, behind the module that is to run it, if any.
    """
    options = [f"--nproc-per-node={processes}", "--standalone"]
    return printed_by([agent(script, folder, options, "lo")], folder)


def torchrun_on_hosts(script: list[str], folder: Path) -> list[str]:
    """Run a script with two processes on each of two hosts; return what they printed.

    The hosts are those of the lesson: inside this machine.
    """
    network = Network(2, hosts.read_link("400mbit"))
    place = [f"--master-addr={hosts.address_in(0)}", "--master-port=29400"]
    agents = []
    for host in range(2):
        options = ["--nnodes=2", "--nproc-per-node=2", f"--node-rank={host}", *place]
        own = folder / f"host{host}"
        own.mkdir()
        agents.append(agent(script, own, options, hosts.INTERFACE, network, host))
    try:
        return printed_by(agents, folder)
    finally:
        network.close()


def agent(
    script: list[str],
    folder: Path,
    options: list[str],
    interface: str,
    network: Network | None = None,
    host: int = 0,
) -> subprocess.Popen:
    """Start torchrun for a script in another folder; its logs go to `folder`.

    network: that a host to run on is in; by default, it runs on this machine.
    """
    lead, fds = [], ()
    if network is not None:
        net, uts = fds = network.hosts[2 * host : 2 * host + 2]
        lead = ["nsenter", f"--net=/proc/self/fd/{net}", f"--uts=/proc/self/fd/{uts}"]
    if network is not None and network.user is not None:
        fds = [network.user, *fds]
        lead += [f"--user=/proc/self/fd/{network.user}", "--preserve-credentials"]
    command = [
        *lead,
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--no-python",
        *options,
    ]
    command += ["--redirects=3", f"--log-dir={folder}", sys.executable, *script]
    away = folder / "elsewhere"
    away.mkdir()
    names = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface}
    return subprocess.Popen(
        command,
        cwd=away,
        env={**os.environ, **names},
        pass_fds=fds,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed_by(agents: list[subprocess.Popen], folder: Path) -> list[str]:
    """Wait for torchrun; return what every rank printed."""
    try:
        said = [one.communicate(timeout=LIMIT)[1] for one in agents]
    finally:
        for one in agents:
            one.kill()
            one.wait()
    logs = sorted(folder.glob("**/attempt_0/*/stdout.log"))
    errors = [p.with_name("stderr.log").read_text()[-1500:] for p in logs]
    ended = [one.returncode for one in agents]
    assert not any(ended), "\n".join([*(text[-1500:] for text in said), *errors])
    return [path.read_text(encoding="utf-8") for path in logs]


def by_cell(text: str, names: set[str]) -> dict[str, list[str]]:
    """Split what a rank printed at the names of the cells."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("# ") and line[2:] in names:
            lines = found.setdefault(line[2:], [])
        else:
            lines.append(line.rstrip())
    return found


def by_rank(cell, world_size: int) -> list[list[str]]:
    """Read from a stored output what each rank printed."""
    said: list[list[str]] = [[] for _ in range(world_size)]
    blocks: list[list[str]] = []
    text = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
    for line in text.splitlines():
        if found := TAG.fullmatch(line):
            blocks = [said[rank] for rank in worlds.ranks_in(found[1])]
            line = found[2]
        else:
            line = line.removeprefix("  ")
        for block in blocks if line is not None else ():
            block.append(line.rstrip())
    return said


def compared(cell) -> bool:
    """Tell whether nbval compares the cell, and it does not fail on purpose."""
    return not cell.metadata.get("tags", [])


@pytest.mark.parametrize("lesson", cases(SOAK, test=TEST))
def test_a_lesson_under_torchrun(lesson, tmp_path):
    target = tmp_path / f"{lesson.stem}.py"
    assert main(["export", str(lesson), "-o", str(target), "--mark"]) == 0
    cells = [c for c in nbformat.read(lesson, 4).cells if c.cell_type == "code"]
    names = {cell.id for cell in cells} | {"end of the lesson"}
    watch = WATCH if number(lesson) in WATCHED else ()
    run = torchrun_on_hosts if number(lesson) in ON_HOSTS else torchrun
    printed = [by_cell(text, names) for text in run([*watch, str(target)], tmp_path)]
    world_size = next(notebook.all_worlds(notebook.read(lesson))).world_size
    seen = 0
    for cell in filter(compared, cells):
        if cell.id not in printed[0] or not cell.source.startswith("%%px"):
            continue
        if (number(lesson), cell.id) in UNLIKE:
            continue
        stored = by_rank(cell, world_size)
        ours = [printed[rank][cell.id] for rank in range(world_size)]
        assert ours == stored, f"cell {cell.id}"
        seen += any(stored)
    assert seen > 0
