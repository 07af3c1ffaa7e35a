"""Directives of the decks: cells, pictures, votes, exercises and notes.

The code of a slide is that of the lesson's cell, and what stands below it is what
live ranks answered when the decks were built: `tools/play.py` ran them.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lessons import asked, played, reading
from lessons.quoting import NOTES, SHOW, Quoting, note

MINUTES = re.compile(r"^```\{notes\} (\d+)$", re.M)


class LessonCell(Quoting):
    """A cell of a lesson: ``03 gather``, and what it showed."""

    required_arguments = 2
    option_spec = {
        "show": lambda text: directives.choice(text, SHOW),
        "no-imports": directives.flag,
    }

    def quoted(self) -> list[nodes.Node]:
        lesson, name = self.arguments
        return self.shown(lesson, name, self.options.get("show", "both"))


class LiveCell(Quoting):
    """What code of the deck shows, run in a lesson's world behind one of its cells."""

    required_arguments = 2
    has_content = True
    option_spec = {"show": lambda text: directives.choice(text, SHOW)}

    def quoted(self) -> list[nodes.Node]:
        lesson, after = self.arguments
        live = asked.Live(lesson, after, "\n".join(self.content).strip())
        return self.shown(lesson, live.id, self.options.get("show", "output"))


class LessonHead(Quoting):
    """The promise of a lesson, what it needs, and the minutes of the deck."""

    required_arguments = 1

    def quoted(self) -> list[nodes.Node]:
        (lesson,) = self.arguments
        deck = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        total = sum(map(int, MINUTES.findall(deck)))
        self.env.note_dependency(str(reading.path_of(lesson)))
        quote = nodes.block_quote("", nodes.paragraph("", reading.promise(lesson)))
        line = f"{total} min in class · you need {reading.needed(lesson)}"
        (small,) = self.parse_text_to_nodes(line)
        small["classes"].append("small")
        return [quote, small]


class Exercise(Quoting):
    """Title and text of an exercise: ``3.1``."""

    required_arguments = 1

    def quoted(self) -> list[nodes.Node]:
        number = self.arguments[0]
        lesson = f"{int(number.split('.')[0]):02}"
        self.env.note_dependency(str(reading.path_of(lesson)))
        if number not in reading.exercises(lesson):
            raise reading.NotFound(f"lesson {lesson} has no exercise {number}")
        name, text = reading.exercises(lesson)[number]
        heading = nodes.paragraph("", name, classes=["exercise"])
        return [heading, *self.parse_text_to_nodes(text)]


class Vote(Quoting):
    """Answers to vote on; the right one is told to the speaker only.

    seen: cell and text; what that cell showed must contain the text, or the answer
        is not right any more.
    """

    has_content = True
    option_spec = {
        "answer": directives.unchanged_required,
        "seen": directives.unchanged,
    }

    def quoted(self) -> list[nodes.Node]:
        if seen := self.options.get("seen"):
            self.check(*seen.split(" ", 2))
        choices = self.parse_content_to_nodes()[0]
        items = nodes.enumerated_list("", *choices.children, enumtype="upperalpha")
        items["classes"].append("vote")
        letters = [chr(ord("A") + i) for i in range(len(choices))]
        if self.options["answer"] not in letters:
            raise reading.NotFound(f"the answer is none of {', '.join(letters)}")
        return [items, note(f"<p>Answer: <b>{self.options['answer']}</b></p>")]

    def check(self, lesson: str, name: str, text: str) -> None:
        """Raise NotFound unless the played cell shows the text."""
        cell = played.cell(lesson, name)
        if not played.shows(cell, text):
            raise reading.NotFound(
                f"cell {name} of lesson {lesson} does not show {text!r}, so the answer "
                f"{self.options['answer']} may be wrong now; it shows: "
                + played.shown_by(cell)
            )


class Notes(SphinxDirective):
    """Notes of the speaker, with minutes: those of the slide, and when it ends."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return an aside, which the slide does not show."""
        deck = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        before = "\n".join(deck.splitlines()[: self.lineno])
        end = sum(map(int, MINUTES.findall(before)))
        total = sum(map(int, MINUTES.findall(deck)))
        head = f"<p><b>{self.arguments[0]} min</b> · until {end} of {total}</p>"
        opening, closing = NOTES.format(head + "\0").split("\0")
        return [
            nodes.raw("", opening, format="html"),
            *self.parse_content_to_nodes(),
            nodes.raw("", closing, format="html"),
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directives of the decks."""
    app.add_directive("lesson-cell", LessonCell)
    app.add_directive("live", LiveCell)
    app.add_directive("lesson-head", LessonHead)
    app.add_directive("exercise", Exercise)
    app.add_directive("vote", Vote)
    app.add_directive("notes", Notes)
    return {"parallel_read_safe": True}
