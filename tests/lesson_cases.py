"""Lessons as parameters of tests that run each of them in another way."""

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def cases(
    soak: Collection[int],
    paths: Iterable[Path] = LESSONS,
    *more: object,
    test: Collection[int] = (),
) -> list[ParameterSet]:
    """Return each lesson as a parameter, followed by `more`.

    test, soak: numbers of the lessons that `make test` runs, and that CI's `make soak`
        does; the others are for a release.
    """
    return [
        pytest.param(
            path,
            *more,
            id="-".join([path.stem, *map(str, more)]),
            marks=marks(number(path), test, soak),
        )
        for path in paths
    ]


def marks(
    lesson: int, test: Collection[int], soak: Collection[int]
) -> list[pytest.MarkDecorator]:
    """Return the marks that say when a lesson is run."""
    if lesson in test:
        return []
    return [pytest.mark.soak] + [pytest.mark.release] * (lesson not in soak)


def number(path: Path) -> int:
    """Return the number of a lesson."""
    return int(path.name[:2])
