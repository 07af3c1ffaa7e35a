"""A name of a face imports its module; what is not installed is named then."""

import sys

import pytest

import course_utils
from course_utils.face import MissingExtra, imported, opened

pytestmark = pytest.mark.unit


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lunch'"):
        course_utils.lunch  # noqa: B018


@pytest.mark.parametrize(
    ("missing", "module", "extra"),
    [("matplotlib", "pictures.plot", "course"), ("nbval", "nb_guard.cells", "test")],
)
def test_a_missing_package_names_its_extra(missing, module, extra, monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"course_utils.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=rf"course-utils\[{extra}\]'$"):
        imported(f"course_utils.{module}")


def test_another_missing_package_stays_the_error_that_it_is():
    names, get = opened("course_utils", {"no_such_module": ("thing",)})
    assert names == ["thing"]
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as error:
        get("thing")
    assert not isinstance(error.value, MissingExtra)
