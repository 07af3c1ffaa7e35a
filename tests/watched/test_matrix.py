"""The faults of the matrix, as scripts: all named right, with the guard and without."""

import re
from collections.abc import Iterator

import pytest
from fault_rows import BOTH, DEATHS, ROWS, Row
from jobs import Job, Jobs

PATIENCE = 1.0  # seconds
OTHERWISE = (  # in a script
    "SIGSTOP while nobody waits",  # nobody waits, so nothing is reported
    # the others end, so the thread gets an error, which ends the thread alone
    "a collective in a thread that is joined",
)
ELSEWHERE = """\
import os, resource, signal, sys, threading, time
import torch
from torch import distributed as dist
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
x = torch.tensor([100 * rank, 100 * rank + 1])
def room(like=x):
    return [torch.empty_like(like) for _ in range(world_size)]
def halve(n):
    return 1 / n
def meet_elsewhere():
    dist.barrier()
dist.barrier()
"""
TARGETS = tuple(row.name for row in ROWS if row.targets)  # no cell, no --targets
FEW = (  # that run each time; `make soak` runs them all
    "rank 1 misses broadcast",
    "rank 0 misses all_gather, unguarded",
    "rank 2 misses barrier",
    "different operations",
    "different operations, unguarded",
    "shapes",
    "a longer source, unguarded, aborts the other rank",
    "roots, unguarded",
    "a member of a sub-group is missing",
    "new_group on one rank only",
    "one more round of for",
    "a rank that sleeps longer than the patience",
    "a rank that holds the interpreter's lock",
    "an error on one rank",
    "an error that the cell catches",
    "a call in a function of another cell",
    "SystemExit",
    "os._exit",
    "SIGKILL of rank 0",
    "SIGSTOP",
    "recv without send",
    "everyone receives first",
    "a message against a collective",
    "a list of works",
)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "elsewhere.py").write_text(ELSEWHERE)
    running = Jobs(folder)
    yield running
    running.close()


def cases() -> list:
    """Return rows and guards; a few run each time, with the guard or without."""
    found = []
    for number, row in enumerate(ROWS):
        for guard in row.guard if row.name not in (*OTHERWISE, *TARGETS) else ():
            soak = row.name not in FEW or (row.guard == BOTH and guard == number % 2)
            marks = pytest.mark.soak if soak else ()
            found.append(
                pytest.param(row, guard, id=f"{row.name}, {guard}", marks=marks)
            )
    return found


def in_script(report: str) -> str:
    """Return the report of a cell as a script has it: with a file, unrepaired."""
    lines = [
        line
        for line in report.splitlines()
        if not line.lstrip().startswith(("repaired:", "ranks.repair()"))
    ]
    text = " ".join(" ".join(lines).split())
    text = re.sub(r"\bat line (\d+)", r"at line \1 of train.py", text)
    text = re.sub(r": line (\d+) stands", r": line \1 of train.py stands", text)
    text = re.sub(r", line 3: return", ", line 10 of elsewhere.py: return", text)
    text = re.sub(r" for [\d.]+ s\b", "", text)
    return text.replace("dtype line ", "dtype line of train.py ")


def said(job: Job) -> list[str]:
    """Return what each rank reported, without line breaks and seconds."""
    begins = r"(?ms)^(stuck: |\[rank[^\]]*\] (?!in )).*"
    found = []
    for text in job.err:
        own = re.sub(r"(?m)^\[rank\d+\]: .*\n?", "", text)
        report = re.search(begins, own)
        plain = " ".join(report[0].split()) if report else ""
        found.append(re.sub(r" for [\d.]+ s\b", "", plain))
    return found


@pytest.mark.parametrize(("row", "guard"), cases())
def test_a_fault(jobs, row: Row, guard: bool):
    size = 3 if 3 in row.sizes else row.sizes[0]
    options = f"--patience {PATIENCE}{' --guard' if guard else ''}"
    lingers = "time.sleep(0.5)"  # the others come to their call before a rank ends
    script = f"from elsewhere import *\n{row.cell}\n{lingers}\n"
    job = jobs.run(script, size, options)
    reports = said(job)
    expected = in_script(row.expected(size))
    if not expected:
        assert (job.codes, reports) == ([0] * size, [""] * size)
        return
    assert any(job.codes)
    written = [text for text in reports if text]
    assert written, job.err
    for text in written:
        compare(row, text, expected)


def compare(row: Row, text: str, expected: str) -> None:
    """Compare a report with that of the cell."""
    if row in DEATHS and row.dies or "aborts" in row.name:
        expected = expected.partition(" its last words:")[0]
        text = text.partition(" last seen")[0]
    if row.name == "a call in a function of another cell":
        text = text.replace("line 12 of elsewhere.py", "line 3 of train.py")
    if row.name == "SystemExit":  # Python says itself what it was called with
        text = text.removesuffix(" enough")
    assert text == expected
