"""%%px in a real kernel: what the reader of a notebook sees, rank by rank."""

import re

import pytest
import worlds
from worlds import stream, text


def test_rank_order_and_one_line_each(book):
    assert book.good("%%px\nprint(100 * rank)") == (
        "[rank 0] 0\n[rank 1] 100\n[rank 2] 200\n[rank 3] 300\n"
    )


def test_ranks_that_say_the_same_share_a_line(book):
    assert book.good("%%px\nprint('hello')") == "[ranks 0–3] hello\n"
    assert book.good("%%px\nprint(rank % 2)") == "[ranks 0, 2] 0\n[ranks 1, 3] 1\n"
    assert book.good("%%px\nprint(min(rank, 2))") == (
        "[rank 0] 0\n[rank 1] 1\n[ranks 2–3] 2\n"
    )


def test_ranks_that_say_nothing_are_left_out(book):
    assert book.run("%%px\nx = rank") == []
    assert book.good("%%px\nif rank == 2: print('only me')") == "[rank 2] only me\n"


def test_several_lines_stand_below_the_tag(book):
    said = book.good("%%px\nprint('a')\nprint()\nprint(' b', rank // 2)")
    assert said == "[ranks 0–1]\n  a\n\n   b 0\n[ranks 2–3]\n  a\n\n   b 1\n"


def test_last_value_follows_what_was_printed(book):
    assert book.good("%%px\nrank * 'a'") == (
        "[rank 0] ''\n[rank 1] 'a'\n[rank 2] 'aa'\n[rank 3] 'aaa'\n"
    )
    assert book.good("%%px\nprint('x')\n3") == "[ranks 0–3]\n  x\n  3\n"
    assert book.run("%%px\nNone") == []


def test_a_tensor_is_shown_as_torch_shows_it(book):
    said = book.good("%%px --targets 0:2\nimport torch\ntorch.arange(2) + 100 * rank")
    assert said == "[rank 0] tensor([0, 1])\n[rank 1] tensor([100, 101])\n"


def test_stderr_stands_apart_under_its_rank(book):
    outputs = book.run(
        "%%px\nimport sys\nprint('out')\nprint('err', rank // 2, file=sys.stderr)"
    )
    assert stream(outputs, "stdout") == "[ranks 0–3] out\n"
    assert stream(outputs, "stderr") == "[ranks 0–1] err 0\n[ranks 2–3] err 1\n"


def test_warnings_reach_the_reader(book):
    outputs = book.run("%%px --targets 1\nimport warnings\nwarnings.warn('mind this')")
    assert "mind this" in stream(outputs, "stderr")
    assert stream(outputs, "stderr").startswith("[rank 1]")


def tags(outputs: list[dict]) -> list[str]:
    """Return the text of outputs that are displayed, and so keep their place."""
    assert {o.output_type for o in outputs} == {"display_data"}
    return [o.data["text/plain"] for o in outputs]


def test_rich_values_follow_their_tag(book):
    outputs = book.run(
        "%%px\nfrom IPython.display import HTML\nHTML(f'<b>{rank // 2}</b>')"
    )
    assert tags(outputs[::2]) == ["[ranks 0–1]", "[ranks 2–3]"]
    assert [o.data["text/html"] for o in outputs[1::2]] == ["<b>0</b>", "<b>1</b>"]


def test_figures_follow_their_tag(book):
    outputs = book.run(
        "%%px\n"
        "import matplotlib.pyplot as plt\n"
        "figure, axes = plt.subplots(figsize=(1, 1))\n"
        "_ = axes.plot([0, rank // 3])"
    )
    assert tags(outputs[::2]) == ["[ranks 0–2]", "[rank 3]"]
    assert all(o.data["image/png"] for o in outputs[1::2])
    assert len(outputs) == 4


def test_display_in_a_loop_keeps_its_order(book):
    outputs = book.run(
        "%%px --targets 2\n"
        "from IPython.display import display, HTML\n"
        "for i in range(5): display(HTML(f'<i>{i}</i>'))"
    )
    assert tags(outputs[:1]) == ["[rank 2]"]
    assert [o.data["text/html"] for o in outputs[1:]] == [
        f"<i>{i}</i>" for i in range(5)
    ]


def test_error_names_rank_line_and_message(book):
    shown = book.failure("%%px\nx = 1\nif rank == 1: raise ValueError('the message')")
    assert shown == (
        "[rank 1] ValueError at line 3: if rank == 1: raise ValueError('the message')\n"
        "  the message"
    )


def test_error_keeps_what_was_printed_before_it(book):
    outputs = book.run("%%px\nprint('before')\nassert rank < 2")
    assert text(outputs[:1]) == "[ranks 0–3] before\n"
    assert outputs[1].evalue == "[ranks 2–3] AssertionError at line 3: assert rank < 2"


def test_errors_of_several_kinds_are_merged_by_kind(book):
    cell = "%%px\nif rank % 2: 1 / 0\nif rank == 2: [][rank]\nprint('fine')"
    outputs = book.run(cell)
    assert text(outputs[:1]) == "[rank 0] fine\n"
    assert "\n".join(outputs[1].traceback) == (
        "[ranks 1, 3] ZeroDivisionError at line 2: if rank % 2: 1 / 0\n"
        "  division by zero\n"
        "[rank 2] IndexError at line 3: if rank == 2: [][rank]\n"
        "  list index out of range"
    )


def test_error_in_a_function_of_an_earlier_cell_shows_both_lines(book):
    book.good("%%px\ndef f(x):\n    y = x // 2\n    raise KeyError(y)")
    assert book.failure("%%px\nz = 1\nf(rank)") == (
        "[ranks 0–1] KeyError at line 3: f(rank)\n"
        "  in f, line 4: raise KeyError(y)\n"
        "  0\n"
        "[ranks 2–3] KeyError at line 3: f(rank)\n"
        "  in f, line 4: raise KeyError(y)\n"
        "  1"
    )


def test_error_inside_a_library_shows_the_line_of_the_cell(book):
    shown = book.failure("%%px\nimport json\njson.loads('[1,')")
    assert shown.startswith("[ranks 0–3] JSONDecodeError at line 3: json.loads('[1,')")
    assert "site-packages" not in shown and "json/" not in shown


def test_syntax_error(book):
    shown = book.failure("%%px\nx = 1\ny = = 2")
    assert shown == "[ranks 0–3] SyntaxError at line 3: y = = 2\n  invalid syntax"


LAST_LINES = [  # a cell that fails on its last line, and what is said of that
    ("%%px\nx = 1\n\n1 / 0", "ZeroDivisionError at line 4: 1 / 0"),
    ("%%px\n\n  \n1 / 0", "ZeroDivisionError at line 4: 1 / 0"),
    ("%%px --targets 0:4\n  x = 1\n  1 / 0", "ZeroDivisionError at line 3: 1 / 0"),
    ("%%px\n>>> x = 1\n>>> 1 / 0", "ZeroDivisionError at line 3: 1 / 0"),
    ("%%px\nif 1:\n    y = = 2", "SyntaxError at line 3: y = = 2"),
    ("%%px\n\nif 1:\n    x\n  y", "IndentationError at line 5: y"),
    ("%%px\nx = 1\n  y = 2", "IndentationError at line 3: y = 2"),
    ("%%px\n'doc'\nfrom __future__ import no", "SyntaxError at line 3"),
    ("%%px\nexit", "RuntimeError at line 2: exit()"),  # IPython adds the brackets
    # A magic below is one call, which stands where the first line of the magic does.
    ("%%px\n\n%%time\nx = 1 / 0", "ZeroDivisionError at line 3: get_ipython()"),
]


@pytest.mark.parametrize(("cell", "said"), LAST_LINES)
def test_lines_count_as_in_the_editor_from_that_of_the_magic(book, cell, said):
    report = book.failure(cell)
    assert report.startswith(f"[ranks 0–3] {said}")
    assert "(<" not in report and ".py" not in report


def test_a_stuck_cell_names_lines_as_in_the_editor(book):
    book.good("patience, ranks.patience = ranks.patience, 0.5")
    report = book.failure("%%px\n\nif rank == 0:\n\n    dist.barrier()")
    book.good("ranks.patience = patience")
    assert "[rank 0] waits in barrier at line 5 for" in report
    assert "likely cause: line 5 stands under `if rank == 0:`" in report


def test_the_guard_names_lines_as_in_the_editor(book):
    report = book.failure("%%px\n\nimport torch\ndist.all_reduce(torch.ones(1 + rank))")
    rows = [row.split() for row in report.splitlines()[1:]]
    assert [row[-1] for row in rows] == ["line", "4", "4", "4", "4"]


def test_check_names_lines_as_in_the_editor(book):
    book.good("%%px\n\ndef gather_all(shard):\n    return 1 / 0")
    said = book.good("from course_utils import check\ncheck('3.1', ranks)")
    assert "ZeroDivisionError at line 4: return 1 / 0" in said


def test_a_cell_means_the_same_below_the_magic(book):
    assert book.good("%%px\n%%capture said\nprint('x')") == ""
    assert book.good("%%px\nsaid.stdout") == "[ranks 0–3] 'x\\n'\n"
    assert book.good("%%px\n'doc'") == "[ranks 0–3] 'doc'\n"
    assert book.good("%%px\n\n") == ""
    assert book.good("%%px\n1;") == ""
    book.good("%%px\nfrom __future__ import annotations\ndef f(x: Unknown): return x")
    assert book.good("%%px --out result\nf(3)") == "[ranks 0–3] 3\n"
    assert book.good("len(result)") == "4\n"


@pytest.mark.parametrize("leave", ["raise SystemExit(3)", "import sys; sys.exit(3)"])
def test_system_exit_fails_the_cell_and_ends_nothing(book, leave):
    shown = book.failure(f"%%px --targets 2\n{leave}")
    assert shown == f"[rank 2] SystemExit at line 2: {leave}\n  3"
    assert book.good("%px rank").count("\n") == 4


@pytest.mark.parametrize("leave", ["exit()", "quit()"])
def test_exit_does_not_end_a_rank(book, leave):
    shown = book.failure(f"%%px\n{leave}")
    assert shown.startswith(f"[ranks 0–3] RuntimeError at line 2: {leave}")
    assert "ranks.stop()" in shown
    assert book.good("%px rank").count("\n") == 4


@pytest.mark.parametrize(
    "error",
    [
        "KeyboardInterrupt",
        "Exception('x')",
        "StopIteration",
        "BaseException",
        "OSError",
    ],
)
def test_an_exception_always_fails_the_cell(book, error):
    shown = book.failure(f"%%px\nif rank == 3: raise {error}")
    assert shown.startswith(f"[rank 3] {error.partition('(')[0]} at line 2: ")
    assert len(shown.splitlines()) <= 3
    assert book.good("%px rank").count("\n") == 4


@pytest.mark.parametrize(
    ("targets", "ranks"),
    [("0", [0]), ("0,2", [0, 2]), ("1:3", [1, 2]), ("2:", [2, 3]), ("all", range(4))],
)
def test_targets_are_ranks(book, targets, ranks):
    said = book.good(f"%%px --targets {targets}\nrank")
    assert said == "".join(f"[rank {rank}] {rank}\n" for rank in ranks)


@pytest.mark.parametrize("targets", ["4", "0,7", "-1", "one"])
def test_targets_that_do_not_exist_run_nothing(book, targets):
    book.good("%px touched = 0")
    shown = book.failure(f"%%px --targets {targets}\ntouched = 1")
    assert shown.startswith(f"--targets {targets}: ")
    assert "does not exist; the ranks are 0 to 3" in shown or "expected ranks" in shown
    assert book.good("%px touched") == "[ranks 0–3] 0\n"


def test_targets_hold_for_one_cell_only(book):
    book.good("%%px --targets 1\nrank")
    assert book.good("%px rank").count("\n") == 4


def test_line_form(book):
    assert book.good("%px print('line')") == "[ranks 0–3] line\n"
    assert book.failure("%px 1 / 0").startswith(
        "[ranks 0–3] ZeroDivisionError at line 1: 1 / 0"
    )


def test_noblock_returns_at_once_and_says_nothing(book):
    outputs = book.run("%%px --noblock\nwaited = rank\nprint('later')")
    assert "later" not in text(outputs)
    assert book.good("%px waited").count("\n") == 4


def test_pxresult_shows_by_rank_what_a_noblock_cell_said(book):
    book.run("%%px --noblock\nprint('later')\nrank // 2")
    assert (
        book.good("%pxresult")
        == "[ranks 0–1]\n  later\n  0\n[ranks 2–3]\n  later\n  1\n"
    )
    book.run("%%px --noblock --targets 1:3\n1 / 0")
    assert "[ranks 1–2] ZeroDivisionError at line 2: 1 / 0" in book.failure("%pxresult")


def test_pxresult_ends_a_stuck_noblock_cell(book):
    book.good("patience, ranks.patience = ranks.patience, 0.5")
    book.run("%%px --noblock\nif rank == 0:\n    dist.barrier()")
    said = book.failure("%pxresult")
    book.good("ranks.patience = patience")
    assert "[rank 0] waits in barrier at line 3" in said
    assert "line 3 stands under `if rank == 0:`" in said
    assert book.good("%%px\nprint('hello')") == "[ranks 0–3] hello\n"


def test_live_lines_of_a_slow_cell_leave_no_trace(book):
    outputs = book.run(
        "%%px\nimport time\ntime.sleep(0 if rank == 3 else 2.6)\nprint('done')"
    )
    shown = [
        m["content"]["data"]["text/plain"]
        for m in book.messages
        if m["msg_type"] in ("display_data", "update_display_data")
    ]
    live = [lines for lines in shown if "finished" in lines]
    assert live, f"no live line said that rank 3 had finished: {shown}"
    assert any("[rank 3] finished" in x and "[ranks 0–2] compute" in x for x in live)
    kinds = [m["msg_type"] for m in book.messages]
    assert kinds.index("clear_output") > kinds.index("display_data")
    assert [dict(o) for o in outputs] == [
        {"output_type": "stream", "name": "stdout", "text": "[ranks 0–3] done\n"}
    ]


def test_fast_cells_and_cells_under_ci_have_no_live_lines(book):
    book.good("%%px\nprint('fast')")
    assert not book.said("display_data")
    book.good("import os\nos.environ['CI'] = 'true'")
    try:
        assert book.good("%px import time; time.sleep(1.8)") == ""
        assert not book.said("display_data") and not book.said("clear_output")
    finally:
        book.good("del os.environ['CI']")


def test_output_is_the_same_whichever_rank_is_faster(book):
    cell = (
        "%%px\n"
        "import random, sys, time\n"
        "for i in range(3):\n"
        "    time.sleep(random.random() / 8)\n"
        "    print(i, rank % 2)\n"
        "    print('err', rank, file=sys.stderr)\n"
        "rank // 3"
    )
    runs = [[dict(o) for o in book.run(cell)] for _ in range(5)]
    assert len(runs[0]) >= 2
    assert all(run == runs[0] for run in runs)


def test_two_thousand_lines_are_complete(book):
    said = book.good("%%px\nfor i in range(2000): print(i, rank // 2)")
    expected = ""
    for half in (0, 1):
        expected += f"[ranks {2 * half}–{2 * half + 1}]\n"
        expected += "".join(f"  {i} {half}\n" for i in range(2000))
    assert said == expected


def test_a_megabyte_is_complete(book):
    said = book.good("%%px\nprint(str(rank) * 10**6)")
    assert said == "".join(f"[rank {rank}] {str(rank) * 10**6}\n" for rank in range(4))


def test_namespaces_are_separate_and_persistent(book):
    book.good("%%px\nkept = 10 * rank")
    assert book.good("%px kept").splitlines() == [
        "[rank 0] 0", "[rank 1] 10", "[rank 2] 20", "[rank 3] 30",
    ]  # fmt: skip
    assert re.search("NameError", book.failure("kept"))
    assert book.good("ranks['kept']") == "[0, 10, 20, 30]\n"


def test_a_launch_in_the_same_kernel_has_fresh_namespaces(tmp_path):
    with worlds.notebook(tmp_path) as book:
        book.good("from course_utils import launch\nranks = launch(2)")
        book.good("%px x = 1")
        assert book.good("ranks = launch(3)\nranks") == "3 ranks · gloo · cpu\n"
        assert book.good("%px 'x' in globals()") == "[ranks 0–2] False\n"
        names = "{'torch', 'dist', 'rank', 'os'} & set(globals())"
        assert book.good(f"%px {names}") == "[ranks 0–2] set()\n"
        book.good("ranks.stop()")
        for cell in ("%px 1", "%%px\n1", "%%px --targets 0\n1"):
            assert "call launch() again" in book.failure(cell)
        assert "call launch() again" in book.failure("ranks['x']")
        assert book.good("ranks") == "3 ranks · stopped\n"


@pytest.mark.parametrize("cell", ["%%px\n1", "%px 1", "# a comment\n%%px\n1"])
def test_px_without_ranks_says_what_to_do(tmp_path, cell):
    """As after a restart of the kernel."""
    with worlds.notebook(tmp_path) as book:
        said = worlds.stream(book.run(cell), "stderr")
        assert "px needs ranks" in said and "run the cell with launch(…) first" in said
