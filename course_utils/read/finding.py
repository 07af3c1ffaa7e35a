"""What the reader says about a line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A line that goes wrong, or may, once there are several ranks.

    rule: its short name, as in "branch"; problem: what goes wrong, in a sentence;
    cure: what to do instead.
    """

    line: int
    rule: str
    problem: str
    cure: str

    def __str__(self) -> str:
        return f"{self.line}: {self.rule}: {self.problem}; {self.cure}"
