"""The commands of Dockerfile and Binder, run in a clean environment, in their order.

The packages are there already, as after their first step; so pip has nothing to fetch,
and everything else happens as it does there: by somebody who is not in a checkout
that was set up, in a copy of what git has.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import environments
import pytest
from environments import ROOT, link, pinned

pytestmark = pytest.mark.soak  # it builds environments
LIMIT = 200  # seconds for one command
FOLDERS = {"/opt/venv": "venv", "/opt/course": "course", "/home/jovyan": "home"}
INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$", re.M)
HUB = "requirements-hub.txt"  # nothing of it is installed here


def instructions() -> list[tuple[str, str]]:
    """Read the instructions of the Dockerfile."""
    text = re.sub(r"^#.*\n|\\\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    return INSTRUCTION.findall(text)


def checkout(folder: Path) -> None:
    """Copy what git has, and what it would take, into a folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


@pytest.fixture
def places(tmp_path) -> dict[str, Path]:
    """Return folders that stand for those of the image; course has a checkout."""
    found = {name: tmp_path / name for name in FOLDERS.values()}
    found["home"].mkdir()
    checkout(found["course"])
    python = environments.empty(found["venv"])
    link(python, [environments.distribution("pip"), *pinned()])
    return found


def bash(command: str, places: dict[str, Path], folder: Path) -> str:
    """Run a command as the image does, with our folders for its own."""
    for name, place in FOLDERS.items():
        command = command.replace(name, str(places[place]))
    path = f"{places['venv'] / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(places["home"])}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_image_is_built_and_starts(places):
    as_user = instructions()[[word for word, _ in instructions()].index("USER") :]
    commands = [text for word, text in as_user if word == "RUN"]
    assert commands[0] == "python -m venv /opt/venv" and len(commands) == 5
    installs, *others = commands[1:]
    bash(installs.replace(f" -r {HUB}", ""), places, places["course"])
    for command in others:
        said = bash(command, places, places["course"])
    assert "checks ok" in said, "the last one is the doctor"
    settings = places["venv"] / "etc/ipython/ipython_kernel_config.py"
    assert settings.exists()
    (entry,) = (text for word, text in as_user if word == "ENTRYPOINT")
    start = " ".join(re.findall(r'"(.*?)"', entry))
    answer = places["home"] / "lessons" / "01_meet_the_ranks.ipynb"
    assert bash(f"{start} echo started", places, places["home"]) == "started\n"
    answer.write_text("an answer")
    bash(f"{start} true", places, places["home"])
    assert answer.read_text() == "an answer"
    assert not (answer.parent / "solutions").exists()


def test_the_image_runs_as_nobody_in_particular():
    words = [word for word, _ in instructions()]
    last = dict(instructions())
    assert last["USER"] == "${NB_UID}" and words.count("USER") == 1
    root = [text for word, text in instructions()[: words.index("USER")]]
    assert not any("pip" in text for text in root)


def test_the_image_and_binder_install_the_pins():
    (install,) = (text for _, text in instructions() if "-r requirements.txt" in text)
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in install
    binder = (ROOT / ".binder/requirements.txt").read_text().splitlines()
    assert binder[-2:] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "-r ../requirements.txt",
    ]


@pytest.mark.release
def test_binder_is_built(places):
    """As repo2docker does: requirements, then postBuild, in the repository."""
    bash("python -m pip install -r .binder/requirements.txt", places, places["course"])
    bash("./.binder/postBuild", places, places["course"])
    said = bash("python -m course_utils doctor", places, places["home"])
    assert "checks ok" in said
