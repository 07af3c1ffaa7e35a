"""TEACHING.md: the timetables add up, and its numbers hold."""

import json
import re
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "TEACHING.md").read_text()
SESSION = re.compile(r"^#+ (.+): (\d+) min$", re.M)
ROW = re.compile(r"^\| (\d+) \| (.+?) \| ([\d., ]*)\| ([\d., ]*)\|$", re.M)
SHORT, LONG = 5, 15  # minutes that a slot may be shorter or longer than its lesson
AT_HOME = 10  # minutes that an exercise takes, and saves at home
ROUTES = {"half": 1, "day": 1, "evenings": 6}  # sessions of each, in this order
MIB = 2**20


def lessons() -> dict[int, tuple[int, set[int], set[str]]]:
    """Read of each lesson its minutes, the lessons it needs, and its exercises."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        text = "\n".join(
            "".join(c["source"]) for c in cells if c["cell_type"] == "markdown"
        )
        minutes = int(re.search(r"\*\*Time\*\* (\d+) min", text)[1])
        needs = re.search(r"\*\*You need\*\* .*?lessons? ([\d, toand]+)", text)
        asked = set(re.findall(r"^## Exercise (\S+) ·", text, re.M))
        found[int(path.name[:2])] = minutes, numbers(needs[1] if needs else ""), asked
    return found


def numbers(text: str) -> set[int]:
    """Read lessons, as in "1 to 3 and 6"."""
    spread = re.sub(
        r"(\d+) to (\d+)",
        lambda m: " ".join(map(str, range(int(m[1]), int(m[2]) + 1))),
        text,
    )
    return set(map(int, re.findall(r"\d+", spread)))


LESSONS = lessons()


def sessions() -> list[tuple[str, int, list[tuple]]]:
    """Read heading, minutes and rows of each session."""
    found = list(SESSION.finditer(TEXT))
    ends = [match.start() for match in found[1:]] + [TEXT.index("### Bridges")]
    return [
        (match[1], int(match[2]), ROW.findall(TEXT[match.end() : end]))
        for match, end in zip(found, ends, strict=True)
    ]


SESSIONS = sessions()


def rows_of(route: str) -> list[tuple]:
    """Return the rows of a route, session after session."""
    first = sum(list(ROUTES.values())[: list(ROUTES).index(route)])
    chosen = SESSIONS[first : first + ROUTES[route]]
    return [row for _, _, rows in chosen for row in rows]


def lesson_rows(route: str) -> list[tuple[int, int, list[str], list[str]]]:
    """Return minutes, lesson, exercises in class and at home of each lesson's row."""
    return [
        (int(minutes), int(found[1]), re.findall(r"[\d.]+", here), home.split(", "))
        for minutes, what, here, home in rows_of(route)
        if (found := re.fullmatch(r"Lesson (\d+)", what))
    ]


@pytest.mark.unit
def test_every_session_is_read():
    assert len(SESSIONS) == sum(ROUTES.values())
    tables = [line for line in TEXT.split("### Bridges")[0].splitlines()]
    slots = [line for line in tables if re.match(r"\| \d", line)]
    assert len(slots) == sum(len(rows) for _, _, rows in SESSIONS)


@pytest.mark.unit
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0])
def test_the_minutes_of_a_session_add_up(session):
    _, stated, rows = session
    assert sum(int(minutes) for minutes, *_ in rows) == stated


@pytest.mark.unit
@pytest.mark.parametrize("route", ROUTES)
def test_a_slot_fits_its_lesson(route):
    for minutes, lesson, _, home in lesson_rows(route):
        away = [name.strip() for name in home if name.strip()]
        needed = LESSONS[lesson][0] - AT_HOME * len(away)
        assert needed - SHORT <= minutes <= needed + LONG, f"lesson {lesson}: {needed}"


@pytest.mark.unit
@pytest.mark.parametrize("route", ROUTES)
def test_every_exercise_of_a_lesson_is_in_class_or_at_home(route):
    for _, lesson, here, home in lesson_rows(route):
        named = [*here, *(name.strip() for name in home if name.strip())]
        assert sorted(named) == sorted(LESSONS[lesson][2]), f"lesson {lesson}"


@pytest.mark.unit
@pytest.mark.parametrize("route", ROUTES)
def test_what_a_lesson_needs_comes_before_it(route):
    """Or a bridge leads over it."""
    done: set[int] = set()
    for _, what, *_ in rows_of(route):
        if bridge := re.fullmatch(r"Bridge over lessons? ([\d to]+)", what):
            done |= numbers(bridge[1])
        if lesson := re.fullmatch(r"Lesson (\d+)", what):
            assert LESSONS[int(lesson[1])][1] <= done, what
            done.add(int(lesson[1]))


@pytest.mark.unit
def test_the_routes_reach_what_they_promise():
    reached = {route: {row[1] for row in lesson_rows(route)} for route in ROUTES}
    assert {7, 8} <= reached["half"], "one hang, and uneven shards"
    assert reached["day"] == set(range(1, 10))
    assert reached["evenings"] == set(LESSONS)
    for route in ROUTES:
        assert any("Break" in what for _, what, *_ in rows_of(route))


@pytest.mark.unit
def test_links_and_commands_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]+)?\)", TEXT)
    assert links and not [path for path, _ in links if not (ROOT / path).exists()]
    headings = {
        "#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", TEXT, re.M)
    }
    assert {anchor for path, anchor in links if not path and anchor} <= headings
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    assert set(re.findall(r"`make ([a-z]+)", TEXT)) <= targets


def stated(what: str) -> float:
    """Read a number of MiB from the table of the hub."""
    return float(re.search(rf"^\| {what} \| (\d+) \|", TEXT, re.M)[1])


@pytest.mark.unit
def test_the_size_of_a_hub_follows_from_the_table():
    lessons = re.findall(r"^\| .*\bin lesson \d+.*?\| \d+ \| \d+–(\d+) \|", TEXT, re.M)
    (lab,) = re.findall(r"^\| JupyterLab, started \| \d+ \| \d+–(\d+) \|", TEXT, re.M)
    person = max(map(int, lessons)) + int(lab)
    assert len(lessons) == 4
    said = re.search(r"needs (\d\.\d) GiB at most, and 30 people need (\d+) GiB", TEXT)
    assert person / 1024 <= float(said[1]) <= 1.2 * person / 1024
    assert 30 * float(said[1]) <= int(said[2]) <= 1.1 * 30 * float(said[1])


def test_the_memory_of_a_world_is_what_is_stated(ranks):
    """Within a bound that other builds and systems keep, too."""
    try:
        family = psutil.Process().children(recursive=True)
        each = {process.pid: process.memory_full_info().pss for process in family}
    except AttributeError:
        pytest.skip("this system has no PSS")
    world, said = sum(each.values()) / MIB, stated("a world of four.*?")
    assert 0.5 * said < world < 1.5 * said
