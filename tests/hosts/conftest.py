"""Hosts that the tests of one file share, and sessions on them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Lab, missing
from session import Session, session

REQUIRED = "HOSTS_REQUIRED"  # variable: where hosts lack something, fail


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests on hosts as long and rare."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("soak")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return hosts that are up; skip where they cannot be made."""
    if lacking := missing():
        if os.environ.get(REQUIRED):
            pytest.fail(lacking)
        pytest.skip(lacking)
    hosts = Lab(tmp_path_factory.mktemp("hosts"))
    try:
        hosts.up()
        yield hosts
    finally:
        hosts.down()


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Return variables of the session's environment."""
    return {}


@pytest.fixture(scope="module")
def book(lab: Lab, variables: dict[str, str]) -> Iterator[Session]:
    """Return a session on `login`."""
    with session(lab, lab.folder, **variables) as opened:
        yield opened


@pytest.fixture
def world(book: Session, request: pytest.FixtureRequest) -> Session:
    """Return a session in which a world of four runs, launched when it has to be.

    The file says how: `LAUNCH`.
    """
    if not book.value("'ranks' in dir() and not ranks.stopped and not ranks.dead()"):
        book.good(request.module.LAUNCH)
        book.good("%px import torch, torch.distributed as dist")
    return book
