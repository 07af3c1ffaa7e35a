"""What ranks say is seen while it runs, and stays, however the cell ends."""

import os
import signal
import threading

import pytest
import worlds

STUCK = "if rank == 0:\n    dist.barrier()"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Return a notebook that somebody watches, with three ranks."""
    with worlds.notebook(tmp_path_factory.mktemp("watched")) as notebook:
        notebook.good("from course_utils import launch\nranks = launch(3, patience=2)")
        notebook.good(
            "%%px\nimport os, sys, time, torch\nfrom torch import distributed as dist"
        )
        notebook.good("%px rank = dist.get_rank()")
        yield notebook


def stop_after(book: worlds.Notebook, seconds: float) -> threading.Timer:
    """Press ■ in a while."""
    pid = book.km.provisioner.pid
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGINT))
    timer.start()
    return timer


def seen_and_stored(book: worlds.Notebook, source: str) -> tuple[str, str, str]:
    """Run a cell; return what was displayed meanwhile, what stays, and the error."""
    outputs = book.run(source)
    kinds = ("display_data", "update_display_data")
    shown = [m["content"] for m in book.messages if m["msg_type"] in kinds]
    errors = ["\n".join(o.traceback) for o in outputs if o.output_type == "error"]
    live = "\n".join(content["data"]["text/plain"] for content in shown)
    return (
        live,
        worlds.text([o for o in outputs if o.output_type != "error"]),
        *errors,
        "",
    )


def test_words_stand_above_the_report_of_a_stuck_cell(book):
    _, stored, error, *_ = seen_and_stored(book, f"%%px\nprint('clue')\n{STUCK}")
    assert stored == "[ranks 0–2] clue\n"
    assert error.startswith("stuck: rank 0 waits for ranks 1–2")


def test_words_stand_above_the_report_of_a_stopped_cell(book):
    timer = stop_after(book, 4)
    _, stored, error, *_ = seen_and_stored(book, "%%px\nprint('clue')\ntime.sleep(60)")
    timer.join()
    assert stored == "[ranks 0–2] clue\n"
    assert error.startswith("interrupted:")


def test_words_of_a_rank_that_dies_stay(book):
    dies = "if rank == 1:\n    time.sleep(2)\n    os._exit(3)\ndist.barrier()"
    _, stored, error, *_ = seen_and_stored(
        book, f"%%px\nprint('clue', flush=True)\n{dies}"
    )
    assert stored == "[ranks 0–2] clue\n"
    assert "[rank 1] died: exit code 3" in error
    book.good("ranks.repair()")
    book.good(
        "%%px\nimport os, sys, time, torch\nfrom torch import distributed as dist"
    )
    book.good("%px rank = dist.get_rank()")


def test_words_are_seen_while_a_cell_runs(book):
    cell = "%%px\nprint('epoch', 1, flush=True)\ntime.sleep(3)\nprint('epoch', 2)"
    live, stored, *_ = seen_and_stored(book, cell)
    assert "[ranks 0–2] epoch 1\n" in live
    assert stored == "[ranks 0–2]\n  epoch 1\n  epoch 2\n"


def test_a_progress_bar_is_one_line(book):
    bar = "for i in range(4):\n    print(f'\\r{25 * (i + 1)} %', end='', flush=True)\n"
    live, stored, *_ = seen_and_stored(book, f"%%px\n{bar}    time.sleep(0.7)")
    assert "50 %" in live or "75 %" in live
    assert stored == "[ranks 0–2] 100 %\n"


def test_words_before_a_long_call_stay(book):
    source = "print('mine')\nimport time\n_ = ranks.run(time.sleep, 2.5)\nprint('too')"
    _, stored, *_ = seen_and_stored(book, source)
    assert stored.replace("\n\n", "\n") == "mine\ntoo\n"


FUNCTION = """
def say(fails=False):
    import logging, warnings, torch.distributed as dist
    print("printed on", dist.get_rank())
    warnings.warn("careful")
    logging.getLogger("mine").warning("logged")
    if fails:
        raise ValueError("as planned")
    return 7
"""


def test_words_of_a_function(book):
    outputs = book.run(f"{FUNCTION}\nranks.run(say)")
    printed = worlds.stream(outputs, "stdout")
    assert printed == "".join(f"[rank {r}] printed on {r}\n" for r in range(3))
    aside = worlds.stream(outputs, "stderr")
    assert (
        aside.startswith("[ranks 0–2]\n") and "careful" in aside and "logged" in aside
    )
    assert "ipykernel" not in aside
    assert worlds.text(outputs[-1:]) == "[7, 7, 7]\n"


def test_words_stand_above_what_a_function_raises(book):
    outputs = book.run(f"{FUNCTION}\nranks.run(say, True)")
    assert "[rank 1] printed on 1" in worlds.stream(outputs, "stdout")
    [error] = [o for o in outputs if o.output_type == "error"]
    assert "ValueError at line" in error.traceback[0]
    assert 'raise ValueError("as planned")' in error.traceback[0]


def test_a_warning_is_one_block_and_the_same_again(book):
    cell = (
        "%%px\nimport warnings\nwarnings.simplefilter('always')\n"
        "warnings.warn('careful')"
    )
    said = [worlds.stream(book.run(cell), "stderr") for _ in range(2)]
    assert said == ["[ranks 0–2] UserWarning at line 4: careful\n"] * 2


def test_displays_that_ranks_update_and_clear(book):
    cell = (
        "%%px\nfrom IPython.display import clear_output, display\n"
        "handle = display('first', display_id=True)\nhandle.update('second')\n"
    )
    assert book.good(cell) == "[ranks 0–2]\n'second'\n"
    clears = "%%px\nprint('old')\nclear_output(wait=True)\nprint('new')"
    assert book.good(clears) == "[ranks 0–2] new\n"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("raise ValueError('peer 10.1.2.3:29500')", "  peer 10.1.2.3:29500"),
        ("raise KeyError('<x at 0x1F40>')", "  '<x at 0x1F40>'"),
        ("raise OSError('remote=[10.0.0.7]:41234')", "  remote=[10.0.0.7]:41234"),
        (
            "raise Exception('Exception raised from here')",
            "  Exception raised from here",
        ),
        ("int('at 0x1F40')", "  invalid literal for int() with base 10: 'at 0x1F40'"),
        ("e = ValueError('m')\ne.add_note('a note')\nraise e", "  m\n  a note"),
        ("raise ValueError('m') from KeyError('k')", "  m\n  from KeyError: 'k'"),
    ],
)
def test_words_of_errors_are_shown_as_they_are(book, cell, text):
    assert book.failure(f"%%px\n{cell}").endswith(f"\n{text}")


@pytest.mark.parametrize("above", ["# a comment\n", "\n", "# one\n\n# two\n"])
def test_px_below_a_comment(book, above):
    line = above.count("\n") + 2
    error = book.failure(f"{above}%%px\n1 / 0")
    assert error.startswith(f"[ranks 0–2] ZeroDivisionError at line {line}: 1 / 0")


def test_a_cell_that_runs_in_the_notebook_as_well(book):
    assert book.good("%%px --local\nprint('both')") == "both\n[ranks 0–2] both\n"
    error = book.failure(
        "%%px --local\nimport builtins\nif hasattr(builtins, 'x'): pass\n1 / 0"
    )
    assert "ZeroDivisionError" in error


SLOW = {
    "a fetch": "%px --noblock time.sleep(8)\nranks['rank']",
    "a call": "import time\nranks.run(time.sleep, 30)",
    "a launch": "launch(2)",
    "a cell here and there": "%%px --local\nimport time\ntime.sleep(30)",
}


@pytest.mark.parametrize("what", SLOW)
def test_stop_ends_it_in_a_few_lines(book, what):
    timer = stop_after(book, 0.15 if what == "a launch" else 2.5)
    outputs = book.run(SLOW[what])
    timer.join()
    errors = [o for o in outputs if o.output_type == "error"]
    assert errors, outputs
    shown = [
        line for e in errors[-1:] for text in e.traceback for line in text.split("\n")
    ]
    assert len(shown) <= 5, shown
    if what == "a launch":
        book.good("ranks = launch(3, patience=2)")
        book.good(
            "%%px\nimport os, sys, time, torch\nfrom torch import distributed as dist"
        )
        book.good("%px rank = dist.get_rank()")
    assert book.good("ranks['rank']") == "[0, 1, 2]\n"
