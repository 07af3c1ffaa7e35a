"""How the tests run: with the signals of a terminal, and the longest files first."""

import signal

import pytest

SIGNALS = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
QUICK = "notebooks/01_"
LONG = (  # part of the path; the longest first, so that no worker is left with one
    "test_matrix",
    "test_lab",
    "12_evaluate",
    "10_measure",
    "test_clean_up",
    "test_repair",
    "test_answers_lesson",
    "notebooks/0",
    "notebooks/1",
    "test_check",
    "test_without_fork",
    "test_nb_guard",
    "test_base",
    "test_images",
    "test_ways_shown",
    "test_launch",
    "test_handed_over",
    "solutions",
    "test_interrupt",
    "test_progress",
    "test_torch_waits",
)


def pytest_configure(config: pytest.Config) -> None:
    """Take the signals as a terminal gives them.

    `nohup`, a script's background job and pytest's workers have some ignored, which
    every process that a test starts would inherit.
    """
    for name, handler in SIGNALS.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make quick` runs: what starts no ranks, and the first lesson."""
    if item.get_closest_marker("unit") or QUICK in item.nodeid:
        item.add_marker("quick")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first; the tests of a file stay together, in their order."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    return next((i for i, part in enumerate(LONG) if part in item.nodeid), len(LONG))
