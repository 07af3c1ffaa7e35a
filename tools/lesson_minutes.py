"""Work out how long a lesson takes, and compare with what it states.

    python tools/lesson_minutes.py            a table of all lessons
    python tools/lesson_minutes.py --run      and how long their cells run here
    python tools/lesson_minutes.py --write    write the minutes into lessons and README

CONTRIBUTING.md, "Minutes", says where the figures come from.
"""

import argparse
import re
import sys
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from lesson_rules import Notebook, exercise_cells, lines, shown, words  # noqa: E402

LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
README = ROOT / "README.md"
STATED = re.compile(r"(?<=\*\*Time\*\* )\d+(?= min)")

WORDS_A_MINUTE = 180
SECONDS_A_CODE_LINE = 8
SECONDS_AN_OUTPUT_LINE = 2
SECONDS_A_PREDICTION = 45
MINUTES_AN_EXERCISE = 3
MINUTES_A_LINE_WRITTEN = 1
MINUTES_RUNNING = 1  # `--run` measures less than that for every lesson
ROUNDED_TO = 5


@dataclass(frozen=True)
class Minutes:
    """What the minutes of a lesson go into."""

    prose: float
    code: float
    output: float
    predictions: float
    exercises: float
    running: float = MINUTES_RUNNING

    @property
    def rounded(self) -> int:
        """Return the sum, rounded as a lesson states it."""
        return ROUNDED_TO * round(sum(astuple(self)) / ROUNDED_TO)


def minutes(lesson: Notebook) -> Minutes:
    """Return the minutes that the formula gives for `lesson`."""
    code = sum(len(filled(cell.source)) for cell in lesson.code)
    outputs = [output for cell in lesson.code for output in cell.outputs]
    output = sum(len(filled(shown(output))) for output in outputs)
    written = lines_to_write(lesson)
    return Minutes(
        prose=words(lesson.prose) / WORDS_A_MINUTE,
        code=code * SECONDS_A_CODE_LINE / 60,
        output=output * SECONDS_AN_OUTPUT_LINE / 60,
        predictions=lesson.prose.count("**Predict.**") * SECONDS_A_PREDICTION / 60,
        exercises=MINUTES_AN_EXERCISE * len(written)
        + MINUTES_A_LINE_WRITTEN * sum(written),
    )


def filled(text: str) -> list[str]:
    """Return the lines of `text` that are not empty."""
    return [line for line in lines(text) if line.strip()]


def lines_to_write(lesson: Notebook) -> list[int]:
    """Count, for each exercise, the lines of its solution that its stub lacks."""
    name = f"{lesson.path.name[:2]}_solutions.ipynb"
    solved = exercise_cells(Notebook(lesson.path.parent / "solutions" / name))
    return [
        len(set(filled(solved[name].source)) - set(filled(stub.source)))
        for name, stub in exercise_cells(lesson).items()
    ]


def stated(lesson: Notebook) -> int:
    """Return the minutes that the lesson states."""
    return int(STATED.search(lesson.cells[0].source)[0])


def write(lesson: Notebook) -> None:
    """Write the minutes of the formula into the lesson and its row of README.md."""
    text = lesson.path.read_text(encoding="utf-8")
    rounded = str(minutes(lesson).rounded)
    lesson.path.write_text(STATED.sub(rounded, text), encoding="utf-8")
    row = rf"(\]\(notebooks/{re.escape(lesson.path.name)}\) \| )\d+(?= min)"
    readme = re.sub(row, rf"\g<1>{rounded}", README.read_text(encoding="utf-8"))
    README.write_text(readme, encoding="utf-8")


def seconds_to_run(lesson: Notebook) -> float:
    """Execute the lesson and return the seconds that it took."""
    from rerun import execute, normalise

    begin = time.monotonic()
    execute(normalise(lesson.node), lesson.path.parent, limit=120)
    return time.monotonic() - begin


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each lesson; return 1 where one states other minutes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", type=Path, help="default: all of them")
    parser.add_argument("--run", action="store_true", help="execute them, too")
    parser.add_argument("--write", action="store_true", help="write what comes out")
    options = parser.parse_args(arguments)
    names = [field.name for field in fields(Minutes)]
    print("lesson", *names, "sum", "rounded", "stated", sep="  ")
    differ = False
    for lesson in map(Notebook, options.lessons or LESSONS):
        took, said = minutes(lesson), stated(lesson)
        parts = [
            f"{part:>{len(name)}.1f}"
            for name, part in zip(names, astuple(took), strict=True)
        ]
        ends = [f"{sum(astuple(took)):3.0f}", f"{took.rounded:7}", f"{said:6}"]
        if options.run:
            ends.append(f"runs {seconds_to_run(lesson):.0f} s")
        print(f"{lesson.number:6}", *parts, *ends, sep="  ", flush=True)
        if options.write:
            write(lesson)
        differ |= not options.write and took.rounded != said
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
