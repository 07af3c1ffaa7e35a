"""The corpus of answers: there are enough for every exercise."""

from collections import Counter
from pathlib import Path

import pytest
from exercises import corpus

from course_utils.exercises import lessons

pytestmark = pytest.mark.unit

RIGHT, WRONG = 3, 12  # answers of an exercise, at least
MODULES = sorted(Path(corpus.__file__).parent.glob("lesson*.py"))
IDS = [entry.id for lesson in lessons.LESSONS for entry in lesson.EXERCISES]


def answers(table: str) -> list[tuple]:
    """Return the rows of a table of all modules."""
    found = []
    for path in MODULES:
        names = {}
        exec(path.read_text(encoding="utf-8"), names)
        assert not set(names["NAMES"]) - set(IDS)
        found += names[table]
    return found


@pytest.mark.parametrize(("table", "least"), [("RIGHT", RIGHT), ("WRONG", WRONG)])
def test_enough(table, least):
    rows = answers(table)
    count = Counter(row[0] for row in rows)
    assert {name: n for name, n in count.items() if n < least} == {}
    assert set(count) == set(IDS)
    assert len({row[:2] for row in rows}) == len(rows), "an answer stands there twice"
