"""Pictures in what nbconvert writes have their text as alternative text."""

import json
from pathlib import Path

import nbformat.v4 as nb4
import pytest
from nbconvert import HTMLExporter, SlidesExporter
from traitlets.config import Config

from course_utils.pictures import Snapshot
from course_utils.pictures.draw import picture

pytestmark = pytest.mark.unit

ETC = Path(__file__).parents[2] / "etc"
CONFIG = json.loads((ETC / "jupyter_nbconvert_config.json").read_text())
PICTURE = picture({"shard": [Snapshot.of([1, 2]), Snapshot.of("<a & 'b'>")]})


def written(exporter, data: dict, metadata: dict) -> str:
    output = nb4.new_output("display_data", data, metadata=metadata)
    notebook = nb4.new_notebook(cells=[nb4.new_code_cell("x", outputs=[output])])
    return exporter(config=Config(CONFIG)).from_notebook_node(notebook)[0]


@pytest.mark.parametrize("exporter", [HTMLExporter, SlidesExporter])
def test_a_picture_says_its_text(exporter):
    from bs4 import BeautifulSoup

    page = BeautifulSoup(written(exporter, *PICTURE._repr_mimebundle_()), "html.parser")
    (image,) = page.select("img")
    assert image["alt"] == PICTURE.text
    size = PICTURE._repr_mimebundle_()[1]["image/png"]
    assert (image["width"], image["height"]) == tuple(map(str, size.values()))


def test_a_picture_without_a_text_stays_as_it_is():
    page = written(HTMLExporter, {"image/png": "AA=="}, {})
    assert 'alt="No description' in page


def test_jupyterlabs_export_reads_the_same_settings():
    assert json.loads((ETC / "jupyter_server_config.json").read_text()) == CONFIG
