"""How ranks and their messages are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_utils.text.errors import RankError, readable
from course_utils.text.tags import (
    ROWS,
    WIDTH,
    indent,
    rank_list,
    rank_table,
    tag,
    these_ranks,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("ranks", "written"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0–1"),
        ([0, 1, 2, 3], "0–3"),
        ([0, 2], "0, 2"),
        ([0, 1, 2, 5], "0–2, 5"),
        ([7, 1, 0, 3], "0–1, 3, 7"),
        (range(100), "0–99"),
        ({4}, "4"),
    ],
)
def test_rank_list(ranks, written):
    assert rank_list(ranks) == written


@given(st.sets(st.integers(min_value=0, max_value=40)))
def test_rank_list_names_exactly_the_ranks(ranks):
    read = set()
    for part in rank_list(ranks).split(", ") if ranks else []:
        first, _, last = part.partition("–")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == ranks


def test_one_rank_and_several():
    assert these_ranks([2]) == "rank 2"
    assert these_ranks(iter([1, 0])) == "ranks 0–1"
    assert tag([2]) == "[rank 2]"
    assert tag({0, 2}) == "[ranks 0, 2]"


def test_indent_leaves_no_spaces_at_line_ends():
    assert indent("a\n\n b \n") == ["  a", "", "   b", ""]


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("plain words: x[1] = 3.5", "plain words: x[1] = 3.5"),
        ("\x1b[31mred\x1b[0m", "red"),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
            "Connection closed by peer [127.0.0.1]:40123",
            "Connection closed by peer",
        ),
        (
            "[/pytorch/gloo/unbound_buffer.cc:84] Timed out waiting 1500ms for recv "
            "operation to complete",
            "Timed out waiting 1500ms for recv operation to complete",
        ),
        ("no route to 10.0.0.12:5555 from here", "no route to its peer from here"),
        ("bad\nException raised from f at /a.cpp:3\nframe #0: 0xdead", "bad"),
        ("size [2, 3] and version 1.2.3.4", "size [2, 3] and version 1.2.3.4"),
        ("a [0:2] slice and a [3]:1", "a [0:2] slice and a [3]:1"),
        ("  spaces \n", "spaces"),
        ("", ""),
    ],
)
def test_readable(message, read):
    assert readable(message) == read


@pytest.mark.parametrize("start", ["[ranks 0–3] all_gather did not run: ", "  "])
def test_long_sentences_of_an_error_are_folded(start):
    sentence = start + "rank 2 passed a tensor that is not contiguous, " * 3
    first, *rest = RankError(sentence.rstrip())._render_traceback_()
    assert first.startswith(start) and len(first) <= WIDTH
    assert rest and all(line.startswith("    ") for line in rest)


def test_long_sentences_of_a_report_are_folded_between_words():
    """Tables stay as they are, and so does the text that a program reads."""
    table = f"  rank  {'operation  ' * 10}".rstrip()
    cause = f"  likely cause: {'the `shard-like` ranks wait, ' * 10}".rstrip()
    error = RankError(f"stuck: rank 0 waits\n{table}\n{cause}")
    first, second, *rest = error._render_traceback_()
    assert [first, second] == ["stuck: rank 0 waits", table]
    assert len(rest) > 1 and all(len(line) <= WIDTH for line in rest)
    assert all(line.startswith("    ") for line in rest[1:])
    assert " ".join(rest).split() == cause.split()
    assert str(error).splitlines() == [first, table, cause]


def test_a_table_of_few_ranks_has_a_row_for_each():
    cells = dict.fromkeys(range(ROWS), ("same",))
    assert rank_table(["what"], cells).splitlines() == [
        "rank  what",
        *[f"{rank}     same" for rank in range(ROWS)],
    ]


def test_a_table_of_many_ranks_draws_together_those_that_are_alike():
    cells = {rank: ("(3,)" if rank == 5 else "(2,)",) for rank in range(16)}
    assert rank_table(["shape"], cells).splitlines() == [
        "rank       shape",
        "0–4, 6–15  (2,)",
        "5          (3,)",
    ]


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 12), min_size=1))
def test_a_table_is_never_longer_than_said_and_leaves_no_rank_out(found):
    text = rank_table(["what"], {r: (f"{v}.",) for r, v in sorted(found.items())})
    lines = text.splitlines()
    assert len(lines) <= 1 + ROWS
    named = set()
    for line in lines[1:]:
        ranks = line.removeprefix("… and ").removeprefix("ranks ").removeprefix("rank ")
        for part in ranks.split("  ")[0].split(", "):
            first, _, last = part.partition("–")
            named |= set(range(int(first), int(last or first) + 1))
    assert named == set(found)
