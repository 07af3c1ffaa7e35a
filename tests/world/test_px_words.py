"""The parts of %%px that need no ranks: targets, merging, layout, errors."""

import pytest
from IPython.utils.capture import capture_output

from course_utils.text.errors import BLOCK, RankError, block, error_text
from course_utils.text.tags import merge
from course_utils.text.targets import parse_ranks
from course_utils.world.output import Output, print_said, quiet, text_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", [0]),
        ("3", [3]),
        ("0,2", [0, 2]),
        ("2,0,2", [0, 2]),
        ("1:3", [1, 2]),
        (":2", [0, 1]),
        ("2:", [2, 3]),
        ("::2", [0, 2]),
        ("all", [0, 1, 2, 3]),
        ("0,2:", [0, 2, 3]),
        ("[0,1]", [0, 1]),
        (" 1 ", [1]),
    ],
)
def test_targets_name_ranks(text, ranks):
    assert parse_ranks(text, 4) == ranks


@pytest.mark.parametrize("text", ["4", "0,4", "17", "-1", "0,-2"])
def test_rank_that_does_not_exist(text):
    with pytest.raises(RankError, match="does not exist; the ranks are 0 to 3"):
        parse_ranks(text, 4)


@pytest.mark.parametrize("text", ["x", "1.5", "0 1", "1:x", "1:2:3:4", "0;1"])
def test_what_names_no_rank(text):
    with pytest.raises(RankError, match="expected ranks, as in 0 or 0,2"):
        parse_ranks(text, 4)


@pytest.mark.parametrize("text", ["", ",", "[]", "2:2", "4:"])
def test_targets_that_name_nobody(text):
    with pytest.raises(RankError, match="no rank is named"):
        parse_ranks(text, 4)


def test_merge_keeps_the_order_of_first_ranks():
    said = {0: "b", 1: "a", 2: "", 3: "b", 4: "a"}
    assert merge(said) == [([0, 3], "b"), ([1, 4], "a")]
    assert merge({0: "", 1: ""}) == []


def test_text_of_joins_print_and_value():
    assert text_of(Output(stdout="a\nb\n", value="3")) == "a\nb\n3"
    assert text_of(Output(value="3")) == "3"
    assert text_of(Output()) == ""


def said(**outputs: Output) -> tuple[str, str]:
    with capture_output() as captured:
        print_said({int(rank[1:]): output for rank, output in outputs.items()})
    return captured.stdout, captured.stderr


def test_one_line_and_several():
    out, err = said(
        r0=Output(stdout="one\n"),
        r1=Output(stdout="one\n", stderr="careful\n"),
        r2=Output(stdout="one\n\ntwo\n"),
        r3=Output(),
    )
    assert out == "[ranks 0–1] one\n[rank 2]\n  one\n\n  two\n"
    assert err == "[rank 1] careful\n"


def test_nothing_said_prints_nothing():
    assert said(r0=Output(), r1=Output()) == ("", "")


def test_what_ranks_raise_is_shown_as_it_is():
    error = RankError("[rank 1] E at line 1: f()\n  m")
    assert error._render_traceback_() == ["[rank 1] E at line 1: f()", "  m"]


class FromRank(Exception):
    """What ipyparallel makes of an exception on a rank."""

    def __init__(self, ename: str, evalue: str, traceback: str) -> None:
        self.ename, self.evalue, self.traceback = ename, evalue, traceback


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            FromRank("ValueError", "m", f"{BLOCK}\nE at line 2: f()\n  m"),
            "E at line 2: f()\n  m",
        ),
        (FromRank("SystemExit", "3", f"An exception…\n\n{BLOCK}\nS\n  3"), "S\n  3"),
        (FromRank("KeyError", "'k'", ""), "KeyError\n  'k'"),
        (FromRank("KeyError", "'k'", None), "KeyError\n  'k'"),
        (OSError("gone"), "OSError\n  gone"),
    ],
)
def test_error_text(error, text):
    assert error_text(error) == text


ADDRESS = "at 10.1.2.3:29500, <object at 0x1F40>"


def noted() -> Exception:
    error = ValueError("first\n  second")
    error.add_note("a note")
    error.__cause__ = KeyError("k")
    return error


class Silent(Exception):
    def __str__(self) -> str:
        raise TypeError


@pytest.mark.parametrize(
    ("error", "places", "clean", "text"),
    [
        (ValueError("m"), ["at line 2: f()"], False, "ValueError at line 2: f()\n  m"),
        (
            ValueError("m"),
            ["at line 2: f()", "in f, line 1: g()"],
            False,
            "ValueError at line 2: f()\n  in f, line 1: g()\n  m",
        ),
        (
            AssertionError(),
            ["at line 1: assert x"],
            False,
            "AssertionError at line 1: assert x",
        ),
        (ValueError(ADDRESS), [], False, f"ValueError\n  {ADDRESS}"),
        (RuntimeError(ADDRESS), [], True, "RuntimeError\n  at its peer, <object>"),
        (
            noted(),
            [],
            False,
            "ValueError\n  first\n    second\n  a note\n  from KeyError: 'k'",
        ),
        (
            SyntaxError("invalid syntax", ("1.py", 3, 1, "")),
            [],
            False,
            "SyntaxError\n  invalid syntax",
        ),
        (Silent(), [], False, "Silent\n  (its text cannot be written)"),
    ],
)
def test_block(error, places, clean, text):
    assert block(error, places, clean) == f"{BLOCK}\n{text}"


def test_quiet_in_tests_and_under_ci(monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    monkeypatch.delenv("CI", raising=False)
    assert not quiet()
    monkeypatch.setenv("CI", "true")
    assert quiet()
    monkeypatch.delenv("CI")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "a test")
    assert quiet()
