"""Slurm's own words: what it says of a job, and how a rank of it ended."""

from __future__ import annotations

import re
import subprocess

from course_utils.engines.logs import signal_named, tail

LIMIT = 20.0  # seconds for one of Slurm's commands
GOING_ON = (
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "RESIZING",
    "SUSPENDED",
)
STEP = (  # of srun: the end of a task or a node ends nothing else
    "--no-kill",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--mpi=none",
    "--input=none",
)
ENDED = re.compile(r"^(?:srun: error: )?(\S+): tasks? (\S+): (.+)$", re.M)
EXITED = re.compile(r"Exited with exit code (\d+)")


class SlurmError(RuntimeError):
    """A command of Slurm's failed."""


def ask(*command: str, env: dict[str, str] | None = None) -> str:
    """Run a command of Slurm's; return what it printed."""
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer in {LIMIT:.0f} s") from None
    if done.returncode:
        raise SlurmError(tail(done.stderr or done.stdout, 5) or f"{command[0]} failed")
    return done.stdout


def state_of(job: str) -> tuple[str, str]:
    """Return state and reason of a job, as in ("PENDING", "Resources").

    ("", "") for one that Slurm knows no more.
    """
    try:
        said = ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r").strip()
    except SlurmError as error:
        if "Invalid job id" in str(error):
            return "", ""
        raise
    state, _, reason = said.partition("|")
    return state, "" if reason == "None" else reason


def exit_code_of(job: str) -> int:
    """Return the exit code of a job's script; 0 if Slurm does not know."""
    try:
        said = ask("scontrol", "show", "job", "-o", job)
    except SlurmError:
        return 0
    found = re.search(r"\bExitCode=(\d+):", said)
    return int(found[1]) if found else 0


def first_node() -> str:
    """Return the address of a node; "" if Slurm tells none."""
    try:
        return ask("sinfo", "-h", "-N", "-o", "%o").split()[0]
    except (SlurmError, OSError, IndexError):
        return ""


def ending_of(task: int, words: str) -> int | None:
    """Return how a task ended, by what srun said; a negative code is a signal's."""
    for _, tasks, how in ENDED.findall(words):
        if task not in numbers(tasks):
            continue
        if code := EXITED.match(how):
            return int(code[1])
        return -signal_named(how) or None
    return None


def numbers(text: str) -> list[int]:
    """Read the tasks in "0-1,3"."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found
