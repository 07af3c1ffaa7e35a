"""Skip what runs on hosts inside this machine, where they cannot be made.

With HOSTS_REQUIRED, as in our CI, that is a failure.
"""

import os
from functools import cache

import pytest

from course_utils.engines.namespaces import lacking

LESSON = "13_leave_the_machine"
REQUIRED = "HOSTS_REQUIRED"


@cache
def why_not() -> str:
    """Return why such hosts are not there; "" where they are, or must be."""
    if os.environ.get(REQUIRED):
        return ""
    return lacking()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Skip the lesson, and tests marked `inside`, where there can be no hosts."""
    runs = LESSON in item.nodeid and not item.get_closest_marker("unit")
    if (runs or item.get_closest_marker("inside")) and why_not():
        reason = f"no hosts inside this machine: {why_not()}"
        item.add_marker(pytest.mark.skip(reason=reason))
