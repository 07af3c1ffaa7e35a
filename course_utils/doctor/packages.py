"""The packages of this Python against the pins, and the Python of Jupyter's kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from course_utils.doctor.examination import Ill
from course_utils.doctor.host import PATIENCE

DISTRIBUTION, LAB, KERNEL = "course-utils", "jupyterlab", "python3"
LESSONS = "course"  # the extra with what the lessons need beside launch and %%px
PINS = Path(__file__).parents[2] / "requirements.txt"  # in a checkout
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
SHOWN = 4  # packages that a finding names
SERVERS = re.compile(r"python(3(\.\d+)?)?")  # Jupyter takes its own Python for these
PREFIX = "import sys; print(sys.prefix)"


def packages() -> str:
    """Compare what the course needs with the pins, or, without them, its ranges."""
    try:
        wanted = needed()
    except PackageNotFoundError:
        raise Ill(
            "course_utils is not installed in this Python, so no rank finds it",
            "make venv, or, in the folder of the course: pip install -e .",
        ) from None
    except ImportError as error:
        raise Ill(f"{error.name} is missing", how_to_install()) from None
    wrong = [text for name in sorted(wanted) if (text := differs(name, wanted[name]))]
    lab = "" if is_there(LAB) else "; no JupyterLab, which is one way to open notebooks"
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise Ill(", ".join(wrong[:SHOWN]) + more, how_to_install())
    kind = "as pinned" if pins() else "in the ranges of the course"
    return f"{len(wanted)} {kind}{lab}"


def how_to_install() -> str:
    """Say how the packages of the course are installed."""
    if PINS.exists():
        return "make venv, or, in your own Python: pip install -r requirements.txt"
    return "pip install --upgrade --force-reinstall course-utils"


def pins() -> dict[str, str]:
    """Read the versions that the checkout pins; {} where there is no checkout."""
    if not PINS.exists():
        return {}
    return {plain(name): exact for name, exact in PIN.findall(PINS.read_text())}


def needed() -> dict[str, str]:
    """Return what each package must be that the course needs here, by name.

    Those that only JupyterLab needs are left out where it is not installed, and,
    where there is no checkout with the lessons, so is what only they need.
    """
    from packaging.requirements import Requirement

    wanted: dict[str, str] = {}
    exact, pending = pins(), [DISTRIBUTION]
    while pending:
        for need in map(Requirement, requires(pending.pop()) or []):
            name = plain(need.name)
            here = need.marker is None or need.marker.evaluate({"extra": ""})
            if not here and not need.marker.evaluate({"extra": LESSONS}):
                continue
            free = name == LAB or not (here or exact)
            if name in wanted or (free and not is_there(name)):
                continue
            pinned = exact.get(name)
            wanted[name] = f"=={pinned}" if pinned else str(need.specifier)
            if is_there(name):
                pending.append(name)
    return wanted


def differs(name: str, wanted: str) -> str:
    """Say what is wrong with a package; "" if nothing is."""
    from packaging.specifiers import SpecifierSet

    if not is_there(name):
        return f"{name} is missing"
    here = version(name).partition("+")[0]  # torch has its build behind a plus
    if SpecifierSet(wanted).contains(here, prereleases=True):
        return ""
    return f"{name} is {here}, not {wanted.removeprefix('==')}"


def is_there(name: str) -> bool:
    """Tell whether a package is installed."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def plain(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def kernel() -> str:
    """Look whether notebooks run in this Python."""
    cure = "python -m ipykernel install --sys-prefix, with this Python"
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError as error:
        raise Ill(f"{error.name} is missing", how_to_install()) from None
    try:
        command = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
    except NoSuchKernel:
        raise Ill(f"Jupyter knows no kernel {KERNEL}", cure) from None
    if not SERVERS.fullmatch(command) and prefix_of(command) != sys.prefix:
        raise Ill(f"Jupyter's kernel {KERNEL} starts another Python: {command}", cure)
    return f"Jupyter's {KERNEL} is this Python"


def prefix_of(command: str) -> str:
    """Return which environment a command for Python belongs to; "" for none."""
    try:
        done = subprocess.run(
            [command, "-c", PREFIX], capture_output=True, text=True, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
