"""Pages that were built, in Chromium without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium import ARGS, CHROMIUM

BUILD = Path(__file__).parents[1] / "build"
SERIOUS = {"serious", "critical"}


@contextmanager
def offline(width: int, height: int, **more: object) -> Iterator:
    """Give a page of a browser that has no network; what it asks for is recorded.

    `page.asked` lists the addresses that are no files, `page.said` the errors that it
    wrote to its console.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, offline=True, **more)
        page = context.new_page()
        page.asked, page.said = [], []
        context.on("request", lambda request: _keep(page.asked, request.url))
        page.on("console", lambda message: _complain(page.said, message))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        try:
            yield page
        finally:
            browser.close()


def _keep(asked: list[str], address: str) -> None:
    if not address.startswith(("file:", "data:", "about:", "blob:")):
        asked.append(address)


def _complain(said: list[str], message) -> None:
    if message.type == "error":
        said.append(message.text)


def barriers(page) -> list[str]:
    """Return what axe finds serious on a page, as one line for each rule."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.add_style_tag(content="* { transition: none !important; }")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}; {[node['html'] for node in rule['nodes'][:3]]}"
        for rule in found
        if rule["impact"] in SERIOUS
    ]
