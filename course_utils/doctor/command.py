"""`python -m course_utils doctor`: examine this machine, one line a thing."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from course_utils.doctor import host, packages
from course_utils.doctor.examination import FAIL, OK, Check, Finding, examine
from course_utils.doctor.trial import Trial
from course_utils.engines import machine
from course_utils.text import seconds, show_bytes
from course_utils.world import interrupted_after

LAUNCH = f"launch({host.RANKS})"
LIMIT = 60
LAST = 20.0  # seconds to tidy up in, when the limit is over
NAMED = ("course-utils", "torch", "ipyparallel", "ipykernel", "jupyterlab")


def checks(trial: Trial) -> tuple[Check, ...]:
    """List what is looked at, in order."""
    return (
        Check("Python", host.python),
        Check("memory", host.memory),
        Check("fork", host.fork),
        Check("hosts", host.hosts),
        Check("loopback", host.loopback),
        Check("shared memory", host.shared_memory),
        Check("packages", packages.packages),
        Check("kernel", packages.kernel),
        Check(LAUNCH, trial.launch, ("Python", "memory", "fork", "loopback")),
        Check("all_gather", trial.gather, (LAUNCH,)),
        Check("guard", trial.guard, (LAUNCH,)),
        Check("stop", trial.stop, (LAUNCH,), always=True),
    )


def doctor_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `doctor`."""
    parser = commands.add_parser(
        "doctor",
        help="look whether this machine can run the lessons, and what to do if not",
        description="Look at everything that the lessons need, and start four ranks. "
        "The last line is made to be pasted: it names no path and no host.",
        epilog="Exit status: 0 if all is well, else 1.",
    )
    parser.add_argument(
        "--limit",
        type=seconds,
        default=LIMIT,
        metavar="SECONDS",
        help=f"for everything together (default: {LIMIT})",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine, show what is found, and sum it up; return the exit status."""
    limit = options.limit
    late = f"it was interrupted; the limit is {limit:g} s"

    def show(finding: Finding) -> None:
        print(finding, flush=True)

    with interrupted_after(limit, again=LAST):
        findings = examine(checks(Trial()), show, late)
    print(summary(findings))
    return 0 if all(finding.state == OK for finding in findings) else 1


def summary(findings: list[Finding]) -> str:
    """Write one line to paste: versions, machine, verdict; no path, no host."""
    bad = [finding.name for finding in findings if finding.state == FAIL]
    verdict = f"FAIL {', '.join(bad)}" if bad else f"{len(findings)} checks ok"
    ready = [
        f"launch {finding.text.partition(':')[0]}"
        for finding in findings
        if finding.name == LAUNCH and finding.state == OK
    ]
    here = [f"Python {platform.python_version()}", *map(named, NAMED)]
    where = [f"{platform.system()} {platform.machine()}", f"{cores()} cores", room()]
    return " · ".join(["doctor", *here, *where, *ready, verdict])


def named(package: str) -> str:
    """Name a package and its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def room() -> str:
    """Write the memory that is available."""
    try:
        return f"{show_bytes(machine.available_memory())} free"
    except ImportError:
        return "memory unknown"
