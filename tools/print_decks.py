"""Print the decks of build/slides with Chromium, a slide a page.

python tools/print_decks.py               every deck
python tools/print_decks.py 03 04         those of lessons 3 and 4
"""

import argparse
import sys
from pathlib import Path

from chromium import ARGS, CHROMIUM, NAMES
from playwright.sync_api import Browser, sync_playwright

DECKS = Path(__file__).resolve().parents[1] / "build" / "slides"
PRINTED = ".reveal.ready .pdf-page"


def print_deck(browser: Browser, deck: Path) -> Path:
    """Print a deck beside its page; return the file."""
    page = browser.new_page()
    page.goto(f"{deck.as_uri()}?print-pdf")
    page.wait_for_selector(PRINTED)
    page.evaluate("document.fonts.ready")
    file = deck.with_suffix(".pdf")
    page.pdf(path=file, prefer_css_page_size=True, print_background=True)
    page.close()
    return file


def main(arguments: list[str] | None = None) -> int:
    """Print the decks named in `arguments`; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="such as 03; default: all")
    numbers = parser.parse_args(arguments).numbers
    if CHROMIUM is None:
        print(f"expected Chromium on the PATH as one of {', '.join(NAMES)}: install it")
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        for deck in sorted(DECKS.glob("[0-9][0-9]_*.html")):
            if not numbers or deck.name[:2] in numbers:
                print(print_deck(browser, deck), flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
