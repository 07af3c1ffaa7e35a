"""README on a screen of 390 pixels, as GitHub would show it, in Chromium.

GitHub's own styles are not at hand: its font sizes, paddings and the way it breaks
lines are written down here. Badges need a network and are left out.
"""

import re

import pages
import pytest
from environments import ROOT

WIDTH = 390
STYLE = """
  body { margin: 0; padding: 16px; font: 16px/1.5 sans-serif }
  body { overflow-wrap: break-word }
  pre { padding: 16px; overflow: auto; font: 13.6px/1.45 monospace; margin: 0 0 16px }
  code { font: 13.6px monospace; white-space: break-spaces; padding: .2em .4em }
  pre code { white-space: pre; padding: 0 }
  table { border-collapse: collapse; display: block; max-width: 100%; overflow: auto }
  th, td { padding: 6px 13px; border: 1px solid }
  img { max-width: 100% }
  ul { padding-left: 2em }
"""
WIDE = """() => [...document.querySelectorAll('body, pre, table, img')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 || e.clientWidth > innerWidth)
  .map(e => `${e.tagName}: ${e.innerText.slice(0, 60)}`)"""


@pytest.mark.soak
@pytest.mark.browser
def test_nothing_scrolls_sideways(tmp_path):
    markdown = pytest.importorskip("markdown_it", reason="make soak installs it")
    if pages.CHROMIUM is None:
        pytest.skip("there is no chromium")
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"<!-- badges.*?end of badges -->", "", text, flags=re.S)
    body = markdown.MarkdownIt("commonmark").enable("table").render(text)
    head = f'<base href="{ROOT.as_uri()}/"><style>{STYLE}</style>'
    page_file = tmp_path / "readme.html"
    page_file.write_text(f"<!doctype html>{head}{body}")
    with pages.offline(WIDTH, 844) as page:
        page.goto(page_file.as_uri())
        assert page.evaluate("document.querySelector('img').naturalWidth") > WIDTH
        assert page.evaluate(WIDE) == []
