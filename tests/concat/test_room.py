"""Memory for large results is in huge pages, where the system allows them."""

import re
from pathlib import Path

import pytest
import torch

from course_utils.concat import room

ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) [rwxps-]{4} ")


def flags_at(address: int) -> list[str]:
    """Return the flags of the mapping of this process that holds an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if head := HEAD.match(line):
            inside = int(head[1], 16) <= address < int(head[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


@pytest.mark.skipif(not ALLOWED.exists(), reason="this system has no huge pages")
@pytest.mark.parametrize(("size", "huge"), [(2 * room.LARGE, True), (2**16, False)])
def test_large_memory_asks_for_huge_pages(size, huge):
    made = room.empty([size // 4], torch.float32, "cpu")
    assert (made.shape, made.dtype) == ((size // 4,), torch.float32)
    assert ("hg" in flags_at(made.data_ptr() + size // 2)) == huge
