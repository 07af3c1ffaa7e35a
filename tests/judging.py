"""Try the answers of a corpus on real ranks, and compare what `check` says of them.

A corpus is a module of `exercises/corpus`, and holds data alone: NAMES, the function
and parameters of each exercise; IMPORTS, what the answers use beside torch; RIGHT, rows
of exercise and answer; WRONG, rows of exercise, answer and words that the verdict has
in it. An answer is the body of the function, or the whole of it.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from course_utils import check
from course_utils.exercises.verdict import Verdict
from course_utils.world.ranks import Ranks

SHORT = 2  # seconds that a hanging answer waits
IMPORTS = "import os\nimport torch\nimport torch.distributed as dist\n"
PLACES = "rank, world_size = dist.get_rank(), dist.get_world_size()"


def source(corpus: ModuleType, exercise: str, answer: str) -> str:
    """Return a cell that defines the function of an exercise."""
    head = corpus.NAMES[exercise]
    name = head.partition("(")[0]
    if f"def {name}(" in answer or f"{name} =" in answer:
        return f"{IMPORTS}{corpus.IMPORTS}{answer}\n"
    lines = "\n".join(
        f"    {line}" for line in [PLACES, *answer.strip("\n").splitlines()]
    )
    return f"{IMPORTS}{corpus.IMPORTS}def {head}:\n{lines}\n"


def judge(ranks: Ranks, corpus: ModuleType, exercise: str, answer: str) -> Verdict:
    """Define an answer on the ranks, and return the verdict on it."""
    ranks.view.execute(source(corpus, exercise, answer), block=True)
    verdict = check(exercise, ranks, timeout=SHORT)
    print(verdict)
    return verdict


class Tried:
    """The tests of one corpus; a module of tests inherits from it.

    All answers are tried in one world, so each shows as well that the world is fit for
    use after the one before, which may have hung or killed a rank.
    """

    corpus: ModuleType

    @classmethod
    def generate(cls, metafunc: pytest.Metafunc) -> None:
        """Make a test for each row."""
        rows = {"test_right": cls.corpus.RIGHT, "test_wrong": cls.corpus.WRONG}
        table = rows.get(metafunc.function.__name__)
        if table is not None:
            names = (
                "exercise, answer, said" if len(table[0]) > 2 else "exercise, answer"
            )
            metafunc.parametrize(names, table, ids=ids(table))
        elif "exercise" in metafunc.fixturenames:
            metafunc.parametrize("exercise", sorted(cls.corpus.NAMES))

    def test_right(self, ranks, exercise, answer):
        assert judge(ranks, self.corpus, exercise, answer)

    def test_stub(self, ranks, exercise):
        head = self.corpus.NAMES[exercise]
        ranks.view.execute(f"def {head}:\n    return None", block=True)
        name = head.partition("(")[0]
        said = repr(check(exercise, ranks))
        assert said == f"{exercise} not started: {name} returns None"

    def test_wrong(self, ranks, exercise, answer, said):
        verdict = judge(ranks, self.corpus, exercise, answer)
        assert not verdict
        assert said in " ".join(verdict.text.split())
        assert ranks.dead() == []


def ids(table: list) -> list[str]:
    """Name the rows of a table by their exercise."""
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]
