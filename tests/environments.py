"""Environments that hold a wheel of ours, what it needs, and nothing else.

A package that is installed here is linked there instead of being installed anew: that
takes a second, and no network. `pip check` then says whether anything is missing.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCES = ("course_utils", "etc")
FILES = ("course_utils_plugins.py", "pyproject.toml", "README.md")
LICENCES = ("LICENSE", "LICENSE-text")
LIMIT = 200  # seconds for pip, or for one run in an environment
STRAY = (".pth", "__pycache__")  # what a package leaves beside its folders


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, without a network."""
    sources = folder / "sources"
    skip = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copytree(ROOT / name, sources / name, ignore=skip)
    for name in (*FILES, *LICENCES):
        shutil.copy(ROOT / name, sources)
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    pip("wheel", *alone, "-w", str(folder), str(sources))
    (wheel,) = folder.glob("*.whl")
    return wheel


def pip(*arguments: str, python: Path | None = None) -> str:
    """Run pip in this environment, or in that of `python`; return what it says."""
    there = ["--python", str(python)] if python else []
    done = subprocess.run(
        [sys.executable, "-m", "pip", *there, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(
    folder: Path, wheel: Path, *extras: str, older: Iterable[str] = ()
) -> Path:
    """Make an environment with a wheel and what it needs; return its Python.

    older: versions to be installed, from pip's own index, instead of those here.
    """
    python = empty(folder)
    names = {Requirement(text).name for text in older}
    packages = closure(needs_of(wheel), extras)
    link(python, [one for one in packages if one.name not in names])
    if older:
        pip("install", "-q", *older, python=python)
    pip("install", "--no-deps", "--no-index", str(wheel), python=python)
    pip("check", python=python)
    return python


def empty(folder: Path) -> Path:
    """Make an environment without any package; return its Python."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def needs_of(wheel: Path) -> list[str]:
    """Read what a wheel says that it needs."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (n for n in file.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_bytes(file.read(name)).get_all("Requires-Dist", [])


def closure(needs: Iterable[str], extras: Iterable[str] = ()) -> list[Distribution]:
    """Return the packages that these need, and those that they need, and so on."""
    pending = [(text, {"", *extras}) for text in needs]
    found: dict[str, Distribution] = {}
    while pending:
        text, wanted = pending.pop()
        need = Requirement(text)
        name = canonicalize_name(need.name)
        marker = need.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in wanted):
            continue
        if name not in found or need.extras:
            found[name] = distribution(name)
            deeper = {"", *need.extras}
            pending += [(more, deeper) for more in found[name].requires or ()]
    return list(found.values())


def pinned() -> list[Distribution]:
    """Return what is installed here of requirements.txt."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(), re.M)
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):  # of another platform
            found.append(distribution(name))
    return found


def link(python: Path, packages: Iterable[Distribution]) -> None:
    """Link the folders and modules of packages into an environment."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    for package in packages:
        tops = {path.parts[0] for path in package.files or () if path.parts[0] != ".."}
        for top in tops:
            if not top.endswith(STRAY) and not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))


def run(
    python: Path, *arguments: str, folder: Path, **more
) -> subprocess.CompletedProcess:
    """Run a Python in a folder, and wait for it."""
    command = [str(python), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, **more
    )
