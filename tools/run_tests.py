"""Run every test, several pytest processes at a time, and add up what they say.

Most tests wait for processes rather than compute, so that a few runs side by side
end much earlier on the same two cores. Each file with real ranks is a run of its own.
What `pytest` alone does is the same, one file after another.

Arguments are handed to pytest; LANES in the environment says how many run at once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LANES = int(os.environ.get("LANES", "3"))
LIMIT = 3600  # seconds for one run of pytest
NOTHING_RAN = 5  # pytest's exit code where no test was selected
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)\b")
SPLIT = {"tests/faults/test_matrix.py": ("guarded", "not guarded")}  # runs of its own
LONG = (  # part of the path; the longest first
    "test_execute",
    "test_export",
    "test_matrix",
    "notebooks/0",
    "notebooks/solutions",
    "test_clean_up",
    "test_check",
    "test_lab",
    "test_ways_shown",
    "test_launch",
    "test_repair",
    "tests/unit",
)


def groups() -> list[list[str]]:
    """Return what each run of pytest gets, the longest runs first."""
    alone = [
        path
        for folder in ("faults", "notebooks", "ranks", "browser")
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
    ]
    lessons = sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))
    halves = [lessons[::2], lessons[1::2]]
    solutions = sorted(ROOT.glob("notebooks/solutions/*.ipynb"))
    unit = [ROOT / "tests" / "unit"]
    paths = [*halves, solutions, unit, *([path] for path in alone)]
    named = [[str(p.relative_to(ROOT)) for p in group] for group in paths if group]
    named.sort(key=lambda group: place(group[0]))
    return [
        [*group, "-k", part] if part else group
        for group in named
        for part in (("",) if "-k" in sys.argv else SPLIT.get(group[0], ("",)))
    ]


def place(path: str) -> int:
    """Return how late a run may start."""
    return next((i for i, part in enumerate(LONG) if part in path), len(LONG))


def run(group: list[str], arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run pytest on a group; return its exit code and what it printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--basetemp={folder}", *arguments, *group]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    return done.returncode, done.stdout


def main() -> int:
    """Run all groups; print what failed, a line for each run, and the sum."""
    total: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    failed = False
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(LANES) as pool,
    ):
        runs = {
            pool.submit(run, group, sys.argv[1:], Path(folder) / str(i)): group
            for i, group in enumerate(groups())
        }
        for future in as_completed(runs):
            code, output = future.result()
            if code not in (0, NOTHING_RAN):
                failed = True
                print(output)
            lines = output.strip().splitlines()
            for line in lines:
                if line.startswith("SKIPPED"):
                    print(line)
            names = runs[future]
            rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(
                f"{names[0]}{rest}: {lines[-1] if lines else 'no output'}", flush=True
            )
            for number, what in COUNT.findall(lines[-1] if lines else ""):
                key = "failed" if what.startswith("error") else what
                total[key] = total.get(key, 0) + int(number)
    passed, bad = total.pop("passed"), total.pop("failed")
    skipped = sum(total.values())
    print(f"\n{passed} passed, {bad} failed, {skipped} skipped")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
