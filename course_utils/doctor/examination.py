"""Checks in order: what each found, and what it leaves untried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_utils.text import indent

OK, FAIL, UNTRIED = "ok", "FAIL", "–"
NAME = 14  # characters of the column of names
LINES = 8  # of what came that a finding shows
UNKNOWN = "nothing of that kind is known; send somebody this page and its last line"
LATE = "close other programs, or give it a longer --limit"


class Ill(Exception):
    """Something is not as a world needs it.

    what: came instead; cure: what to do about it.
    """

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.what, self.cure = what, cure


@dataclass(frozen=True)
class Check:
    """One thing to look at.

    look: returns a detail to show, or raises `Ill`.
    needs: names of the checks that must have been good.
    always: whether it tidies up, and so runs after an interrupt, too.
    """

    name: str
    look: Callable[[], str]
    needs: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class Finding:
    """What one check found; state is OK, FAIL or UNTRIED."""

    name: str
    state: str
    text: str
    cure: str = ""

    def __str__(self) -> str:
        first, *more = self.text.strip().splitlines()[:LINES] or [""]
        lines = [f"{self.state:4} {self.name:{NAME}} {first}", *indent("\n".join(more))]
        if self.cure:
            lines.append(f"     cure: {self.cure}")
        return "\n".join(line for line in lines if line.strip())


def examine(
    checks: Sequence[Check], show: Callable[[Finding], None], interrupted: str
) -> list[Finding]:
    """Run checks one after another, and show each finding at once.

    interrupted: what to say of a check that an interrupt ended; the rest, but for
        what tidies up, is then left untried.
    """
    findings: dict[str, Finding] = {}
    stopped = False
    for check in checks:
        lacking = [name for name in check.needs if findings[name].state != OK]
        if lacking:
            text = f"not tried: it needs {' and '.join(lacking)}"
            found = Finding(check.name, UNTRIED, text)
        elif stopped and not check.always:
            found = Finding(check.name, UNTRIED, f"not tried: {interrupted}")
        else:
            try:
                found = look(check)
            except KeyboardInterrupt:
                stopped, found = True, Finding(check.name, FAIL, interrupted, LATE)
        findings[check.name] = found
        show(found)
    return list(findings.values())


def look(check: Check) -> Finding:
    """Run one check; an error that it does not know is a finding, too."""
    try:
        return Finding(check.name, OK, check.look())
    except Ill as ill:
        return Finding(check.name, FAIL, ill.what, ill.cure)
    except Exception as error:
        return Finding(check.name, FAIL, f"{type(error).__name__}: {error}", UNKNOWN)
