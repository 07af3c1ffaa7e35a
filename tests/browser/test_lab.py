"""A learner's way: JupyterLab in a real browser.

Lesson 3 is run from the menu; in a notebook of our own ranks get stuck, and get out.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
import worlds
from chromium import ARGS, CHROMIUM

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSON = next(NOTEBOOKS.glob("03_*.ipynb"), None)
SETTINGS = {  # every cell in the page; no question about news, and no look for any
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
LIMIT = 240_000  # ms for the whole lesson
STEP = 120_000  # ms for one cell of a short notebook
ERRORS = '[data-mime-type$="jupyter.stderr"], [data-mime-type$="jupyter.error"]'
RED = f"cells => cells.map(cell => cell.querySelectorAll('{ERRORS}').length)"
IDLE = "#jp-main-statusbar >> text=/\\| Idle/"  # the kernel, once it has started
BEGUN = '.jp-CodeCell .jp-InputArea-prompt:text-matches("[*0-9]")'
FINISHED = """() => {
    const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')];
    const busy = prompts.some(prompt => prompt.textContent.includes('*'));
    return !busy && /\\d/.test(prompts.at(-1).textContent);
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.skipif(LESSON is None, reason="there is no lesson 3 yet"),
]


@contextmanager
def jupyterlab(folder: Path, notebooks: Path) -> Iterator[str]:
    """Run JupyterLab with nobody's settings; give the address that opens it."""
    places = {
        name: str(folder / name.lower())
        for name in (
            "HOME",
            "IPYTHONDIR",
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
        )
    }
    for name, values in SETTINGS.items():
        path = Path(places["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.jupyterlab-settings").write_text(
            json.dumps(values)
        )
    token = secrets.token_hex(16)
    env = worlds.environment(JUPYTER_TOKEN=token, **places)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    command += [f"--ServerApp.root_dir={notebooks}"]
    with (folder / "jupyterlab.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=notebooks, env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        runtime = Path(places["JUPYTER_RUNTIME_DIR"])
        found = worlds.wait_for(lambda: list(runtime.glob("jpserver-*.json")))
        assert found, (folder / "jupyterlab.log").read_text()
        port = worlds.wait_for(lambda: port_in(found[0]))
        yield f"http://127.0.0.1:{port}/lab/tree/{{}}?token={token}"
    finally:
        server.terminate()
        try:
            server.wait(30)
        finally:
            worlds.end(env[worlds.MARK])


def port_in(path: Path) -> int | None:
    """Return the port that a server wrote down, once it has."""
    try:
        return json.loads(path.read_text())["port"]
    except ValueError:  # it is being written
        return None


def without_outputs(lesson: Path) -> list[dict]:
    """Clear a notebook, so that all one sees of it has run; return its cells."""
    notebook = nbformat.read(lesson, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, lesson)
    return notebook.cells


def run_all(page) -> None:
    """Run all cells from the menu; accept the kernel if JupyterLab asks for one.

    On a very busy machine it asks although the notebook names its kernel.
    """
    for _ in range(3):
        page.click('.lm-MenuBar-itemLabel:text-is("Run")')
        page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
        page.wait_for_selector(f".jp-Dialog, {BEGUN}")
        if not page.locator(".jp-Dialog").count():
            return
        page.click(".jp-Dialog .jp-mod-accept")
        page.wait_for_selector(IDLE)


@contextmanager
def opened(folder: Path, notebooks: Path, name: str, limit: int) -> Iterator:
    """Open a notebook in JupyterLab; give the page once the kernel has started.

    limit: ms that one wait may take. What the page shows last is kept as a picture.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    with jupyterlab(folder, notebooks) as address, playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(limit)
        try:
            page.goto(address.format(name))
            page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell")
            page.wait_for_selector(IDLE)  # or JupyterLab asks for a kernel
            yield page
        finally:
            page.screenshot(path=folder / "page.png")
            browser.close()


def test_lesson_3_runs_from_the_menu(tmp_path):
    notebooks = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, notebooks)
    cells = without_outputs(notebooks / LESSON.name)
    with opened(tmp_path, notebooks, LESSON.name, LIMIT) as page:
        run_all(page)
        page.wait_for_function(FINISHED)
        page.wait_for_selector(IDLE)
        red = page.eval_on_selector_all(".jp-Notebook .jp-Cell", RED)
        picture = page.locator(".jp-OutputArea-output img").first
        picture.scroll_into_view_if_needed()
        assert picture.is_visible()
        assert picture.evaluate("image => image.complete && image.naturalWidth") > 50
    planned = ["raises-exception" in cell.metadata.get("tags", []) for cell in cells]
    assert [bool(count) for count in red] == planned  # errors, and warnings too
    assert os.path.getsize(tmp_path / "page.png") > 10_000


def run_cell(page, number: int):
    """Run a cell from the keyboard; return its place in the page."""
    cell = page.locator(".jp-CodeCell").nth(number)
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    return cell


def ended(cell) -> str:
    """Wait until a cell has ended; return its output."""
    cell.locator('.jp-InputArea-prompt:text-matches("[0-9]")').wait_for()
    return cell.locator(".jp-OutputArea").last.inner_text()


def errors(place) -> int:
    """Count the outputs in a cell, or in all, that are shown as errors."""
    return place.locator(ERRORS).count()


STUCK = (
    "from course_utils import launch\n\nranks = launch(3, patience=2)\nranks",
    "%%px\nimport torch\nimport torch.distributed as dist\n\n"
    "rank = dist.get_rank()\nx = torch.full((2,), rank)",
    "%%px\nif rank == 0:\n    dist.broadcast(x, src=0)",
    "%%px\ndist.all_reduce(x)\nx.tolist()",
    "%%px\nwhile rank == 1:\n    pass",
    "%%px\ndist.broadcast(x, src=2)\nx.tolist()",
    "ranks.stop()",
)


def test_stuck_cell_and_endless_loop_end_and_the_next_cell_works(tmp_path):
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    cells = [nbformat.v4.new_code_cell(source) for source in STUCK]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    book = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.write(book, notebooks / "stuck.ipynb")
    with opened(tmp_path, notebooks, "stuck.ipynb", STEP) as page:
        assert "3 ranks" in ended(run_cell(page, 0))
        assert not errors(page) and ended(run_cell(page, 1)) == ""
        stuck = run_cell(page, 2)
        report = ended(stuck)  # by itself
        assert errors(stuck) == 1
        for said in ("stuck: rank 0 waits for ranks 1–2", "broadcast", "repaired"):
            assert said in report
        assert "[ranks 0–2] [3, 3]" in ended(run_cell(page, 3))
        endless = run_cell(page, 4)
        endless.locator('.jp-OutputArea-output:has-text("rank 1")').wait_for()  # live
        page.click('[data-command="notebook:interrupt-kernel"], [title^="Interrupt"]')
        report = ended(endless)
        assert errors(endless) == 1
        for said in ("interrupted:", "[rank 1]", "repaired"):
            assert said in report
        after = run_cell(page, 5)
        assert "[ranks 0–2] [3, 3]" in ended(after)
        assert errors(page) == 2
        assert ended(run_cell(page, 6)) == ""
        endless.scroll_into_view_if_needed()


def test_pictures_say_their_text_and_cells_run_from_the_keyboard_alone(tmp_path):
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    cells = nbformat.read(LESSON, as_version=4).cells
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    pictures = [o.data for o in shown if "image/png" in o.get("data", {})]
    texts = [data["text/plain"] for data in pictures]
    cells.insert(0, nbformat.v4.new_code_cell("6 * 7"))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    book = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.write(book, notebooks / "pictures.ipynb")
    with opened(tmp_path, notebooks, "pictures.ipynb", STEP) as page:
        images = page.locator(".jp-OutputArea-output img")
        alts = images.evaluate_all("images => images.map((image) => image.alt)")
        assert alts == texts and texts
        page.keyboard.press("Shift+Enter")
        page.locator('.jp-OutputArea-output:has-text("42")').wait_for()
