"""Try answers to the exercises on real ranks, and compare what `check` says of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from course_utils import check, launch
from course_utils.exercises.verdict import Verdict
from course_utils.world.ranks import Ranks

SHORT = 2  # seconds that a hanging answer waits
IMPORTS = "import os\nimport torch\nimport torch.distributed as dist\n"


@dataclass(frozen=True)
class Answers:
    """The answers that one module of tests tries.

    names: function and parameters of each exercise, as in "gather_all(shard)".
    correct: what `check` says of a right answer.
    imports: what the answers use besides torch.
    """

    names: dict[str, str]
    correct: dict[str, str]
    imports: str = "from course_utils import concat\n"

    @property
    def env(self) -> str:
        """The imports in front of every answer."""
        return IMPORTS + self.imports

    def define(self, ranks: Ranks, exercise: str, body: str) -> None:
        """Define the function of an exercise, with rank and world size at hand."""
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        source = (
            f"def {self.names[exercise]}:\n"
            "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
            f"{lines}\n"
        )
        ranks.view.execute(self.env + source, block=True)

    def is_right(self, ranks: Ranks, exercise: str, body: str) -> None:
        """Assert that an answer is called correct."""
        self.define(ranks, exercise, body)
        verdict = check(exercise, ranks)
        assert repr(verdict) == self.correct[exercise]
        assert verdict

    def is_not_started(self, ranks: Ranks, exercise: str) -> None:
        """Assert that the stub is called what it is."""
        head = self.names[exercise]
        ranks.view.execute(f"def {head}:\n    return None", block=True)
        name = head.partition("(")[0]
        said = repr(check(exercise, ranks))
        assert said == f"{exercise} not started: {name} returns None"

    def is_wrong(self, ranks: Ranks, exercise: str, body: str, hint: str) -> Verdict:
        """Assert that a wrong answer gets its hint."""
        self.define(ranks, exercise, body)
        verdict = check(exercise, ranks)
        print(verdict)
        assert not verdict
        assert hint in verdict.why
        return verdict

    def hangs(self, ranks: Ranks, exercise: str, body: str, hint: str) -> None:
        """Assert that a hanging answer ends by itself, and gets its hint."""
        self.define(ranks, exercise, body)
        verdict = check(exercise, ranks, timeout=SHORT)
        print(verdict)
        assert verdict.state in ("stuck", "raised")
        assert hint in verdict.why

    def kills(self, exercise: str) -> Verdict:
        """Assert that an answer that ends its process is called that."""
        with launch(2) as two:
            body = "if rank == 1:\n    os._exit(3)\ndist.barrier()"
            self.define(two, exercise, body)
            verdict = check(exercise, two, timeout=SHORT)
            print(verdict)
            assert verdict.state == "died"
            assert verdict.why == "The function ended the process of rank 1."
            return verdict


class Tried:
    """The tests of a table of answers; a module of tests inherits from it.

    right: exercise and body; wrong, hanging: exercise, body and hint.
    again: exercise and body of a right answer, tried after one that hung.
    """

    answers: Answers
    right: list[tuple[str, str]]
    wrong: list[tuple[str, str, str]]
    hanging: list[tuple[str, str, str]]
    again: tuple[str, str]

    @classmethod
    def generate(cls, metafunc: pytest.Metafunc) -> None:
        """Make a test for each row."""
        names = {"right": "exercise, body", "wrong": "exercise, body, hint"}
        names["hanging"] = names["wrong"]
        table = metafunc.function.__name__.removeprefix("test_")
        if table in names:
            rows = getattr(cls, table)
            metafunc.parametrize(names[table], rows, ids=ids(rows))
        elif "exercise" in metafunc.fixturenames:
            metafunc.parametrize("exercise", sorted(cls.answers.names))

    def test_right(self, ranks, exercise, body):
        self.answers.is_right(ranks, exercise, body)

    def test_stub(self, ranks, exercise):
        self.answers.is_not_started(ranks, exercise)

    def test_wrong(self, ranks, exercise, body, hint):
        self.answers.is_wrong(ranks, exercise, body, hint)

    def test_hanging(self, ranks, exercise, body, hint):
        """It ends by itself, and the next attempt works."""
        self.answers.hangs(ranks, exercise, body, hint)
        self.answers.is_right(ranks, *self.again)

    def test_a_rank_that_dies(self, exercise):
        self.answers.kills(exercise)


def ids(table: list) -> list[str]:
    """Name the rows of a table by their exercise."""
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]
