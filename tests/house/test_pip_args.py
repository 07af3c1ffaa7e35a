"""Which torch pip takes where there is no GPU: asked of pip, with indexes of our own.

The indexes are folders, with tiny wheels in them: one as PyPI is for Linux, whose torch
needs CUDA, and one as PyTorch's for CPUs is.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import environments
import pytest
from environments import ROOT

pytestmark = pytest.mark.soak  # pip takes a second for each answer
TOOL = ROOT / "tools" / "pip_args.py"
TORCH = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.M)[1]
CUDA = "nvidia-cuda-runtime"
GPU = "#!/bin/sh\necho 'GPU 0: of this test'"
LIMIT = 100  # seconds for one run of the tool


def publish(index: Path, name: str, version: str, *needs: str) -> None:
    """Put a wheel without any code on an index."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata = "\n".join([*lines, *(f"Requires-Dist: {need}" for need in needs), ""])
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    page = index / name
    page.mkdir(parents=True)
    with zipfile.ZipFile(page / f"{stem}-py3-none-any.whl", "w") as file:
        file.writestr(f"{stem}.dist-info/METADATA", metadata)
        file.writestr(f"{stem}.dist-info/WHEEL", wheel)
        file.writestr(f"{stem}.dist-info/RECORD", "")
    link = f"{stem}-py3-none-any.whl"
    (page / "index.html").write_text(f'<a href="{link.replace("+", "%2B")}">{link}</a>')


@pytest.fixture(scope="module")
def indexes(tmp_path_factory) -> dict[str, Path]:
    """Return three indexes by name; the last is not there."""
    folder = tmp_path_factory.mktemp("indexes")
    linux = f'{CUDA}; platform_system == "Linux"'
    publish(folder / "pypi", "torch", TORCH, linux)
    publish(folder / "pypi", CUDA, "13.0")
    publish(folder / "other", "torch", TORCH, f'{CUDA}; platform_system == "Amiga"')
    publish(folder / "cpu", "torch", f"{TORCH}+cpu")
    return {name: folder / name for name in ("pypi", "other", "cpu", "nowhere")}


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Return the Python of an environment with pip and nothing else."""
    python = environments.empty(tmp_path_factory.mktemp("empty") / "env")
    environments.link(python, [environments.distribution("pip")])
    return python


@pytest.fixture
def settings(indexes, tmp_path) -> dict[str, str]:
    """Return an environment whose pip knows the index that is as PyPI is."""
    own = {name: value for name, value in os.environ.items() if name[:4] != "PIP_"}
    index = indexes["pypi"].as_uri()
    path = f"{tmp_path}{os.pathsep}{own['PATH']}"
    return {**own, "PATH": path, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}


def ask(python: Path, cpu: Path, env: dict[str, str]) -> subprocess.CompletedProcess:
    """Run the tool with an index of CPU builds."""
    command = [str(python), str(TOOL), "--cpu-index", cpu.as_uri()]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=LIMIT
    )


def would_install(python: Path, arguments: str, env: dict[str, str]) -> dict[str, str]:
    """Return what pip would install of torch, and with it, with these arguments."""
    command = [str(python), "-m", "pip", "install", "-q", "--dry-run", "--report=-"]
    done = subprocess.run(
        [*command, *arguments.split(), f"torch=={TORCH}"],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    return {one["name"]: one["version"] for one in found}


def test_without_a_gpu_pip_takes_the_cpu_build(python, indexes, settings):
    assert would_install(python, "", settings) == {"torch": TORCH, CUDA: "13.0"}
    done = ask(python, indexes["cpu"], settings)
    assert would_install(python, done.stdout, settings) == {"torch": f"{TORCH}+cpu"}
    assert done.stderr == ""


def test_an_index_out_of_reach_is_told_and_not_named(python, indexes, settings):
    done = ask(python, indexes["nowhere"], settings)
    assert done.stdout == ""
    assert "several gigabytes" in done.stderr
    assert indexes["nowhere"].as_uri() in done.stderr


@pytest.mark.parametrize("index", ["other", "cpu"])
def test_where_pip_takes_a_cpu_build_anyway_nothing_is_said(
    python, indexes, settings, index
):
    settings["PIP_INDEX_URL"] = indexes[index].as_uri()
    done = ask(python, indexes["nowhere"], settings)
    assert (done.stdout, done.stderr) == ("", "")


def test_where_there_is_a_gpu_nothing_is_said(python, indexes, settings, tmp_path):
    driver = tmp_path / "nvidia-smi"
    driver.write_text(GPU)
    driver.chmod(0o700)
    done = ask(python, indexes["cpu"], settings)
    assert (done.stdout, done.stderr) == ("", "")


def test_where_torch_is_installed_pip_is_not_asked(indexes):
    env = {**os.environ, "PIP_INDEX_URL": indexes["pypi"].as_uri()}
    done = ask(Path(sys.executable), indexes["cpu"], env)
    assert (done.stdout, done.stderr) == ("", "")


def test_after_condas_torch_pip_takes_no_other(tmp_path):
    """environment.yml: conda brings torch, and pip all other pins."""
    python = environments.empty(tmp_path / "env")
    packages = environments.pinned()
    torch = [one for one in packages if one.name == "torch"]
    environments.link(python, [one for one in packages if one not in torch])
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    conda = site / f"torch-{TORCH}.dist-info"
    conda.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n"
    (conda / "METADATA").write_text(metadata)
    (conda / "INSTALLER").write_text("conda")
    said = environments.pip(
        *["install", "-q", "--no-index", "--dry-run", "--report=-"],
        *["-r", str(ROOT / "requirements.txt")],
        python=python,
    )
    assert json.loads(said)["install"] == []


def test_the_address_is_one():
    """What README and the images name is what the tool tells pip."""
    address = re.search(r'^CPU_INDEX = "(.+)"', TOOL.read_text(), re.M)[1]
    found = [
        (path.name, url)
        for path in (ROOT / "README.md", ROOT / "Dockerfile", *ROOT.glob(".binder/*"))
        for url in re.findall(
            r"https://download\.pytorch\.org[^\s`\"')]*", path.read_text()
        )
    ]
    assert len({name for name, _ in found}) >= 3
    assert {url for _, url in found} == {address}
