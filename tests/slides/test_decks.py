"""The sources of the decks: their form, and that they part from no lesson."""

import re

import nbformat
import play
import pytest
from lesson_rules import EMOJI, FORBIDDEN
from lessons import asked, played, reading
from lessons.lexer import CellLexer

pytestmark = pytest.mark.unit

DECKS = {deck.name[:2]: deck.read_text(encoding="utf-8") for deck in asked.decks()}
LESSONS = sorted(path.name[:2] for path in reading.NOTEBOOKS.glob("[0-9]*_*.ipynb"))
FENCE = re.compile(r"^```(\S*).*?^```$", re.M | re.S)
OURS = {"lesson-head", "lesson-cell", "live", "vote", "exercise", "notes"}
HEADING = re.compile(r"^(?=#{1,2} )", re.M)
NOTES = re.compile(r"^```\{notes\} (\d+)\n(.*?)^```$", re.M | re.S)
LABEL = re.compile(r"^- \*\*[A-Z][^*]+\*\* ", re.M)
each_deck = pytest.mark.parametrize("lesson", DECKS)


def slides(deck: str) -> list[str]:
    return [part for part in HEADING.split(deck) if part.strip()]


def test_every_lesson_has_a_deck():
    assert list(DECKS) == LESSONS


@each_deck
def test_the_title_is_that_of_the_lesson(lesson):
    first = DECKS[lesson].splitlines()[0]
    assert first == f"# {reading.title(lesson)}"
    assert f"```{{lesson-head}} {lesson}" in slides(DECKS[lesson])[0]


@each_deck
def test_a_deck_has_ten_to_fifteen_slides(lesson):
    assert 10 <= len(slides(DECKS[lesson])) <= 15


@each_deck
def test_every_slide_has_notes_with_minutes(lesson):
    for slide in slides(DECKS[lesson]):
        notes = NOTES.findall(slide)
        assert len(notes) == 1, slide
        minutes, text = notes[0]
        assert 1 <= int(minutes) <= 15
        assert LABEL.findall(text), f"say, ask, do, stall or cut? {slide}"


@each_deck
def test_notes_say_where_learners_stall_and_what_to_cut(lesson):
    notes = "\n".join(text for _, text in NOTES.findall(DECKS[lesson]))
    assert len(re.findall(r"\*\*Stall\*\*", notes)) >= 3
    assert re.search(r"\*\*(Cut|Home)\*\*", notes)


@each_deck
def test_a_deck_asks_shows_remembers_and_sets_the_exercises(lesson):
    deck = DECKS[lesson]
    assert deck.count("```{vote}") >= 3
    assert deck.count("## The one thing to remember\n\n> ") == 1
    assert re.findall(r"^```\{exercise\} (\S+)$", deck, re.M) == list(
        reading.exercises(lesson)
    )


@each_deck
def test_nothing_is_pasted(lesson):
    """Code and pictures come from cells; a deck has no others, and no raw HTML."""
    kinds = {kind.strip("{}") for kind in FENCE.findall(DECKS[lesson])}
    assert kinds <= OURS
    prose = FENCE.sub("", DECKS[lesson])
    assert not re.search(r"!\[|<img|<svg|data:image|^    \S", prose, re.M)


@each_deck
def test_every_cell_that_a_deck_refers_to_exists(lesson):
    for where, cell in asked.cells(DECKS[lesson]):
        found = reading.cell_of(reading.notebook_of(where), cell, where)
        assert found.cell_type == "code"


@each_deck
def test_right_answers_are_those_of_the_lesson(lesson):
    """What a vote leans on stands in the stored output, which other tests compare."""
    seen = asked.SEEN.findall(DECKS[lesson])
    assert seen
    for where, name, text in seen:
        cell = reading.cell_of(reading.notebook_of(where), name, where)
        assert played.shows(cell, text), f"{where} {name}: {played.shown_by(cell)}"


@each_deck
def test_wording(lesson):
    for pattern in (FORBIDDEN, EMOJI):
        assert not pattern.search(DECKS[lesson])


def test_a_cell_that_has_gone_is_named_with_those_there_are():
    notebook = reading.notebook_of("03")
    with pytest.raises(reading.NotFound, match="lesson 3 has no cell 'gone'.* gather"):
        reading.cell_of(notebook, "gone", "lesson 3")
    with pytest.raises(reading.NotFound, match="no lesson '3'; write"):
        reading.path_of("3")
    with pytest.raises(reading.NotFound, match="no lesson '99'"):
        reading.path_of("99")


DECK = """
```{lesson-cell} 03 gather
```

```{live} 03 gather
:show: both
ranks.show("shard")

ranks.show("buffers")
```

```{live} 03 shard
ranks
```

:seen: 04 pays the root 64
"""


def test_what_a_deck_asks_for_is_found():
    assert asked.cells(DECK) == {
        ("03", "gather"),
        ("03", "shard"),
        ("04", "pays"),
    }
    code = 'ranks.show("shard")\n\nranks.show("buffers")'
    assert asked.lives(DECK) == [("03", "gather", code), ("03", "shard", "ranks")]


def test_a_lesson_is_played_up_to_what_is_needed(monkeypatch):
    live = asked.Live("03", "gather", "ranks")
    monkeypatch.setattr(play, "needed_cells", lambda lesson: {"gather"})
    cells = [cell["id"] for cell in play.prepared("03", [live]).cells]
    code = [c["id"] for c in reading.notebook_of("03").cells if c.cell_type == "code"]
    assert cells == [*code[: code.index("gather") + 1], live.id, code[-1]]


def test_a_played_lesson_is_kept_while_nothing_changes():
    before = play.prepared("03", [])
    assert play.key(before) == play.key(play.prepared("03", []))
    other = play.prepared("03", [asked.Live("03", "gather", "ranks")])
    assert play.key(before) != play.key(other)


@pytest.mark.parametrize(
    "cell",
    [
        "%%px\nimport torch\n\nx = 1",
        "%px x = 1",
        "%%px --targets 2\nx",
        "x = 'a'\n",
        "%",
    ],
)
def test_the_lexer_reads_every_cell(cell):
    tokens = [value for _, _, value in CellLexer().get_tokens_unprocessed(cell)]
    assert "".join(tokens) == cell


def test_the_lexer_colours_what_stands_below_the_magic():
    tokens = CellLexer().get_tokens_unprocessed("%%px --targets 2\nimport torch\n")
    kinds = {value: str(kind) for _, kind, value in tokens}
    assert kinds["%%px"] == "Token.Keyword.Pseudo"
    assert kinds["import"] == "Token.Keyword.Namespace"


def test_what_a_cell_shows():
    output = nbformat.v4.new_output("stream", name="stdout", text="a  b: True\nc\n")
    cell = nbformat.v4.new_code_cell("x", outputs=[output])
    for text in ("a b", "a … True", "True c"):
        assert played.shows(cell, text)
    for text in ("b a", "True … a", "a … False", "."):
        assert not played.shows(cell, text)


def test_text_of_outputs():
    new = nbformat.v4.new_output
    error = new("error", ename="E", evalue="v", traceback=["\x1b[31mred\x1b[0m", "v"])
    value = new("execute_result", {"text/plain": "4 ranks"}, execution_count=1)
    outputs = [new("stream", name="stdout", text="a\n"), error, value]
    assert list(map(played.text_of, outputs)) == ["a", "red\nv", "4 ranks"]
