"""The site in build/book, in Chromium, from disk, without a network."""

import inspect
import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pages
import pytest
from lessons import reading

BOOK = pages.BUILD / "book"
PAGES = sorted(
    path.relative_to(BOOK).as_posix()
    for path in BOOK.rglob("*.html")
    if "_static" not in path.parts and path.name != "index.html"
)
LESSONS = sorted(path.stem for path in reading.NOTEBOOKS.glob("[0-9]*_*.ipynb"))
READ = ["README", "notebooks/03_gather_equal_shards", "book/api"]

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not PAGES, reason="build it first: make book"),
]


class Links(HTMLParser):
    """What a page refers to, and where others may refer to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        self.anchors |= {found.get("id"), found.get("name")} - {None}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def test_the_book_has_every_page():
    wanted = {f"notebooks/{lesson}.html" for lesson in LESSONS}
    wanted |= {f"notebooks/solutions/{n[:2]}_solutions.html" for n in LESSONS}
    wanted |= {"README.html", "search.html", "book/api.html"}
    wanted |= {"TEACHING.html", "CONTRIBUTING.html", "CHANGELOG.html"}
    wanted |= {"CODE_OF_CONDUCT.html", "book/costs.html"}
    wanted |= {"notebooks/cheat_sheet.html", "notebooks/glossary.html"}
    assert wanted <= set(PAGES)


def is_described(thing: object) -> bool:
    return inspect.isclass(thing) or inspect.isfunction(thing)


def test_every_name_of_every_face_is_in_the_api():
    text = (BOOK / "book" / "api.html").read_text(encoding="utf-8")
    names = []
    for init in reading.ROOT.glob("course_utils/*/__init__.py"):
        package = f"course_utils.{init.parent.name}"
        face = import_module(package)
        given = [name for name in face.__all__ if is_described(getattr(face, name))]
        names += [f"module-{package}", *(f"{package}.{name}" for name in given)]
    assert len(names) > 60
    assert [name for name in names if f'id="{name}"' not in text] == []


def test_links_inside_the_book_lead_somewhere():
    known = {page: Links(BOOK / page) for page in PAGES}
    broken = []
    for page, found in known.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            target = (
                (BOOK / page).parent.joinpath(path).resolve() if path else BOOK / page
            )
            name = target.relative_to(BOOK.resolve()).as_posix() if path else page
            anchor = unquote(parts.fragment)
            if (
                not target.exists()
                or anchor
                and name in known
                and (anchor not in known[name].anchors)
            ):
                broken.append(f"{page}: {link}")
    assert broken == []


def test_lessons_show_the_stored_outputs():
    """Text of results and errors, word for word, in the order of the cells."""
    for lesson in LESSONS:
        notebook = nbformat.read(reading.NOTEBOOKS / f"{lesson}.ipynb", as_version=4)
        text = (BOOK / "notebooks" / f"{lesson}.html").read_text(encoding="utf-8")
        pictures = sum(
            "image/png" in output.get("data", {})
            for cell in notebook.cells
            for output in cell.get("outputs", [])
        )
        assert len(re.findall(r"<img[^>]* alt=\"", text)) >= pictures
        assert text.count('class="cell docutils') >= 10


@pytest.fixture
def page():
    if pages.CHROMIUM is None:
        pytest.skip("there is no chromium")
    with pages.offline(1280, 900) as opened:
        yield opened


def test_the_first_page_leads_to_the_readme(page):
    page.goto((BOOK / "index.html").as_uri())
    page.wait_for_url("**/README.html")


def test_no_request_leaves_a_page(page):
    for name in PAGES:
        page.goto((BOOK / name).as_uri())
        page.wait_for_load_state()
    assert page.asked == []
    assert page.said == []


def test_pictures_say_their_text(page):
    for lesson in LESSONS:
        notebook = nbformat.read(reading.NOTEBOOKS / f"{lesson}.ipynb", as_version=4)
        texts = [
            output.data["text/plain"]
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        page.goto((BOOK / "notebooks" / f"{lesson}.html").as_uri())
        alts = "images => images.map((image) => image.alt)"
        said = page.locator(".cell_output img").evaluate_all(alts)
        assert [" ".join(s.split()) for s in said] == [
            " ".join(t.split()) for t in texts
        ]


def test_the_search_works_from_the_keyboard_alone(page):
    page.goto((BOOK / "README.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("aliasing")
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.search li a")
    found = page.locator("ul.search li a").evaluate_all(
        "links => links.map(a => a.href)"
    )
    assert any("03_gather" in link or "glossary" in link for link in found)


def test_a_solution_is_behind_a_click_or_a_key(page):
    page.goto((BOOK / "notebooks/solutions/03_solutions.html").as_uri())
    code = page.locator("details.hide pre", has_text="def gather_all")
    assert not code.is_visible()
    summary = page.locator("details.hide summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert code.is_visible()


def test_an_exercise_leads_to_its_solution(page):
    page.goto((BOOK / "notebooks/03_gather_equal_shards.html").as_uri())
    page.locator("a", has_text="A solution of 3.1").click()
    page.wait_for_url("**/solutions/03_solutions.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(scheme, page):
    page.emulate_media(color_scheme=scheme)
    page.goto((BOOK / "README.html").as_uri())
    assert page.locator("html").get_attribute("data-theme") == scheme
    colour = "getComputedStyle(document.body).backgroundColor"
    bright = sum(map(int, re.findall(r"\d+", page.evaluate(colour))[:3])) > 384
    assert bright == (scheme == "light")


def test_a_phone_scrolls_in_one_direction(page):
    page.set_viewport_size({"width": 390, "height": 844})
    wide = []
    for name in PAGES:
        page.goto((BOOK / name).as_uri())
        page.wait_for_load_state()
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(name)
    assert wide == []


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(name, scheme, page):
    page.emulate_media(color_scheme=scheme)
    page.goto((BOOK / f"{name}.html").as_uri())
    page.wait_for_load_state()
    assert pages.barriers(page) == []
