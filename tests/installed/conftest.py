"""The wheel, built once for the tests of a file."""

from pathlib import Path

import pytest
from environments import build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of these sources."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))
