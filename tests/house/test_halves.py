"""CI's halves of `make soak` are the whole together."""

from pathlib import Path

import pytest
from halves import other_half

pytestmark = pytest.mark.unit
MODULES = [Path(name) for name in ("c", "a", "e", "b", "a", "d", "b")]


def test_every_module_is_in_one_half():
    first, second = (set(MODULES) - other_half(MODULES, half) for half in (0, 1))
    assert first == {Path("a"), Path("c"), Path("e")}
    assert second == {Path("b"), Path("d")}


def test_a_larger_number_names_a_half_too():
    assert other_half(MODULES, 6) == other_half(MODULES, 0)
    assert other_half(MODULES, 7) == other_half(MODULES, 1)
