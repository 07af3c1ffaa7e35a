"""The decks of build/slides in Chromium, from disk, without a network."""

import pages
import pytest
from lessons import asked, reading

pytest.importorskip("docutils", reason="it comes with make slides")
from lessons.quoting import without_imports

FOLDER = pages.BUILD / "slides"
DECKS = [deck.with_suffix(".html").name for deck in asked.decks()]
SMALLEST = 14  # px, of code
FOOT = 30  # px, where the number of the slide stands

pytestmark = [
    pytest.mark.soak,
    pytest.mark.browser,
    pytest.mark.skipif(pages.CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(
        not (FOLDER / "index.html").exists(), reason="build them first: make slides"
    ),
]

SLIDE = """() => {
    const slide = Reveal.getCurrentSlide();
    const shown = [...slide.children].filter((child) => child.offsetHeight);
    const code = [...slide.querySelectorAll("pre")];
    return {
        title: slide.querySelector("h1, h2").textContent,
        high: Math.max(...shown.map((child) => child.offsetTop + child.offsetHeight)),
        wide: Math.max(...shown.map((child) => child.offsetLeft + child.scrollWidth)),
        cut: code.filter((block) => block.scrollWidth > block.clientWidth).length,
        sizes: code.map((block) => parseFloat(getComputedStyle(block).fontSize)),
        notes: [...slide.querySelectorAll("aside.notes")].map((n) => n.textContent),
        code: [...slide.querySelectorAll(".code pre")].map((block) => block.innerText),
        images: [...slide.querySelectorAll("img")].map((image) => ({
            loaded: image.naturalWidth, high: image.offsetHeight, alt: image.alt,
        })),
    };
}"""


def slides_of(page, deck: str) -> list[dict]:
    """Walk through a deck by the keyboard; return what each slide shows."""
    page.goto((FOLDER / deck).as_uri())
    page.wait_for_selector(".reveal.ready")
    page.evaluate("document.fonts.ready")
    slides = [page.evaluate(SLIDE)]
    for number in range(2, page.evaluate("Reveal.getTotalSlides()") + 1):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"Reveal.getSlidePastCount() == {number - 1}")
        slides.append(page.evaluate(SLIDE))
    return slides


def code_of(deck: str) -> set[str]:
    """Return every text that code on a slide of a deck may be: that of its cells."""
    source = (asked.DECKS / deck).with_suffix(".md").read_text(encoding="utf-8")
    cells = [
        reading.cell_of(reading.notebook_of(lesson), name, lesson).source
        for lesson, name in asked.cells(source)
    ]
    texts = cells + [live.code for live in asked.lives(source)]
    texts += [without_imports(text) for text in cells]
    return {text.strip() for text in texts}


@pytest.mark.parametrize("deck", DECKS)
def test_a_deck_opens_from_disk_and_fits(deck):
    with pages.offline(1280, 720) as page:
        slides = slides_of(page, deck)
        assert page.asked == [] and page.said == []
    known, pictures = code_of(deck), 0
    for slide in slides:
        assert slide["high"] <= 720 - FOOT and slide["wide"] <= 1280, slide
        assert slide["cut"] == 0, f"a line is cut off: {slide}"
        assert all(size >= SMALLEST for size in slide["sizes"]), slide
        assert " min · until " in "".join(slide["notes"]), slide
        for text in slide["code"]:
            assert text.strip() in known, f"no cell of a lesson: {text}"
        for image in slide["images"]:
            assert image["loaded"] and image["high"] > 100 and image["alt"], slide
        pictures += len(slide["images"])
    assert pictures or deck.startswith(("02", "07", "13")), "a deck without a picture"


def test_the_speaker_sees_notes_and_the_room_does_not():
    with pages.offline(1280, 720) as page:
        page.goto((FOLDER / DECKS[0]).as_uri())
        page.wait_for_selector(".reveal.ready")
        assert page.locator("aside.notes").evaluate_all(
            "notes => notes.every((note) => !note.offsetHeight)"
        )
        with page.context.expect_page() as opened:
            page.keyboard.press("s")
        notes = opened.value.locator(".speaker-controls-notes .value")
        notes.filter(has_text="min · until").wait_for()
        assert page.asked == []


def test_a_deck_has_nothing_serious_for_axe():
    with pages.offline(1280, 720) as page:
        page.goto((FOLDER / DECKS[0]).as_uri())
        page.wait_for_selector(".reveal.ready")
        assert pages.barriers(page) == []


def test_every_deck_is_listed():
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert [deck for deck in DECKS if f'href="{deck}"' not in text] == []
