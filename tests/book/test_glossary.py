"""The glossary: every term once, in order, from a lesson that uses it."""

import re

import pytest
from lesson_rules import EMOJI, FORBIDDEN
from lessons import reading

pytestmark = pytest.mark.unit

TEXT = (reading.NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: (.+) \[Lesson (\d+)\]\((\S+)\)$", re.M)
ENTRIES = ENTRY.findall(TEXT)
TERMS = [term.replace("`", "").lower() for term, *_ in ENTRIES]
STRESSED = re.compile(r"\*\*([a-z][^*.:,]*)\*\*")
LESSONS = [f"{number:02}" for number in range(1, 14)]


def prose(lesson: str) -> str:
    cells = reading.notebook_of(lesson).cells
    text = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    return text.partition("## In practice")[0]


def test_every_line_is_an_entry():
    lines = [line for line in TEXT.splitlines() if line.startswith("- ")]
    assert len(lines) == len(ENTRIES) > 40


def test_terms_are_in_order_and_different():
    plain = [term.replace("%", "") for term in TERMS]
    assert plain == sorted(set(plain))


@pytest.mark.parametrize(("term", "text", "number", "link"), ENTRIES)
def test_an_entry_is_short_and_its_lesson_uses_the_term(term, text, number, link):
    assert 1 <= len(re.findall(r"[.?](?= |$)", text)) <= 2
    assert not FORBIDDEN.search(text) and not EMOJI.search(text)
    lesson = f"{int(number):02}"
    assert reading.path_of(lesson).name == link
    used = "\n".join(cell.source for cell in reading.notebook_of(lesson).cells).lower()
    first = term.replace("`", "").lower().split(",")[0]
    assert all(word[:5] in used for word in re.split(r"[ -]", first)), used


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_a_lesson_stresses_is_in_the_glossary(lesson):
    """Bold words of a lesson's prose are the terms that it introduces."""
    known = {term.removesuffix("s") for term in TERMS}
    found = {term.lower().removesuffix("s") for term in STRESSED.findall(prose(lesson))}
    assert found - known == set()
