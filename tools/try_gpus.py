"""Try backend, concat, guard, stuck and fit on the ranks of a launch; print a table.

`tools/try_gpus.sh` runs this, and says how.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import on_each_gpu as on_each

from course_utils import launch
from course_utils.engines import machine
from course_utils.measure import fit
from course_utils.process_group import device
from course_utils.text import RankError, aligned, show_seconds

PATIENCE = 5.0
LIMIT = 60.0  # seconds for one collective


class Failed(Exception):
    """A check went wrong; says how."""


def main() -> int:
    """Launch ranks, try every check, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, help="how many (one for each GPU, or 2)")
    parser.add_argument("--hosts", nargs="*", help="names, each with a number of ranks")
    options = parser.parse_args()
    gpus = machine.gpus()
    room = [int(host.partition(":")[2] or 1) for host in options.hosts or ()]
    size = options.ranks or sum(room) or gpus or 2
    given = {"backend": "nccl" if gpus else "gloo", "hosts": options.hosts}
    with launch(size, **given, timeout=LIMIT, patience=PATIENCE) as ranks:
        rows = [tried(name, ranks) for name in CHECKS]
    print(aligned([("check", "", "what was seen"), *rows]))
    if not gpus:
        print("\nThis was a dry run: torch can use no GPU here.")
    return int(any(row[1] == "FAILED" for row in rows))


def tried(name: str, ranks) -> tuple[str, str, str]:
    """Return a row of the table: a check, how it went, what was seen."""
    if len(ranks) < 2 and name in TOGETHER:
        return name, "–", "needs two ranks"
    try:
        return name, "ok", CHECKS[name](ranks)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}\n", file=sys.stderr)
        first = str(error).strip().partition("\n")[0]
        return name, "FAILED", f"{type(error).__name__}: {first}"


def backend(ranks) -> str:
    """Say what the ranks are, and on which devices."""
    devices = sorted({str(used) for used in ranks.run(device)})
    return f"{ranks!r}: {', '.join(devices)}"


def joined(ranks) -> str:
    """Compare concat, forward and backward, with what one process makes."""
    wrong = ranks.run(on_each.differing)
    if any(wrong):
        raise Failed(f"differs from torch.cat: {wrong}")
    return f"{len(on_each.DTYPES) * 3} cases as torch.cat makes them, and the gradient"


def guarded(ranks) -> str:
    """Let one rank disagree; all must be told, and the group must go on."""
    told, total = zip(*ranks.run(on_each.disagree), strict=True)
    if not all("all_reduce, so it did not run" in text for text in told):
        raise Failed(f"not refused on every rank: {told}")
    check_total(total, ranks)
    return "a wrong shape is refused on every rank; the group goes on"


def check_total(found, ranks) -> None:
    """Raise Failed unless the ranks have found their number."""
    if list(found) != [float(len(ranks))] * len(ranks):
        raise Failed(f"the ranks do not add up afterwards: {found}")


def stuck(ranks) -> str:
    """Let the last rank stay away; it must be named, and the world repaired."""
    started = time.monotonic()
    try:
        ranks.run(on_each.leave_out_last)
    except RankError as error:
        text = str(error)
    else:
        raise Failed("nobody waited for the last rank")
    last = len(ranks) - 1
    if f"for rank {last}" not in text or "a new process group is up" not in text:
        raise Failed(text)
    check_total(ranks.run(on_each.total), ranks)
    return f"rank {last} is named, all repaired, in {time.monotonic() - started:.0f} s"


def fitted(ranks) -> str:
    """Fit latency and bandwidth to the times of all_gather."""
    found = fit(ranks.run(on_each.timed)[0])
    step, speed = show_seconds(found.link.latency), found.link.bandwidth / 1e9
    return f"{step} a step, {speed:.2f} GB/s; at most {found.worst:.0%} off"


CHECKS: dict[str, Callable] = {
    "backend": backend,
    "concat": joined,
    "guard": guarded,
    "stuck": stuck,
    "fit": fitted,
}
TOGETHER = ("guard", "stuck", "fit")

if __name__ == "__main__":
    sys.exit(main())
