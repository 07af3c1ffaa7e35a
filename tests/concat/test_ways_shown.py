"""The ways that the lessons show by hand, against one process, on generated cases.

What is tested is the source of the cells, read from the notebooks: a wrong edit of a
lesson or a solution fails here. `ways_oracle.py` says which cells, and what of.
"""

import ast
import contextlib
import itertools
import re
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lesson_rules import Notebook

from course_utils import launch
from course_utils.text.errors import RankError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TESTS = Path(__file__).parents[1]
HELPERS = ("concat_oracle", "ways_oracle")
SOURCES = {name: (TESTS / f"{name}.py").read_text() for name in HELPERS}
MODULE = """
import sys, types
module = sys.modules[{name!r}] = types.ModuleType({name!r})
exec(compile({source!r}, {name!r}, "exec"), module.__dict__)
"""
# The engines that form a world, in the order of its ranks.
WORLDS = [(2,), (0, 1), (4, 2), (0, 1, 2), (3, 1, 4), (0, 1, 2, 3), (0, 1, 2, 3, 4)]
SIGNED = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8"]
ALL = [*SIGNED, "uint8", "bool"]
SHARED = ["float32", "float64", "int64", "bool"]  # DTYPES of lesson 6
DENSE, LAYOUTS = ("contiguous", "strided"), ("contiguous", "transposed", "strided")
MANY, FEW = 20, 6


@st.composite
def cases(
    draw,
    shape=(),
    dims=(1, 3),
    along=None,
    dtypes=ALL,
    layouts=LAYOUTS,
    worlds=(1, 5),
    **more,
):
    """Some engines, and the shapes, dtype and layout of their shards.

    shape: that of every shard; without it, one of `dims` dimensions is drawn.
    along: the dimension in which shards differ; without it, they are equal.
    worlds: the smallest and the largest world.
    more: further strategies, by name.
    """
    low, high = worlds
    members = draw(st.sampled_from([w for w in WORLDS if low <= len(w) <= high]))
    if not shape:
        count = draw(st.integers(*dims))
        shape = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    shapes = [list(shape) for _ in members]
    if along is not None:
        for one in shapes:
            one[along] = draw(st.sampled_from([0, 1, 2, 5]))
    return {
        "members": members,
        "shapes": [tuple(one) for one in shapes],
        "dim": draw(st.integers(-len(shape), len(shape) - 1)) if len(shape) else 0,
        "dtype": draw(st.sampled_from(dtypes)),
        "layout": draw(st.sampled_from(layouts)),
        "seed": draw(st.integers(0, 2**16)),
        **{name: draw(strategy) for name, strategy in more.items()},
    }


def few(low, high):
    return st.lists(st.integers(low, high), min_size=5, max_size=5)


lengths = st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=5, max_size=5)
rows, count = st.integers(1, 4), st.integers(1, 40)
WAYS = {  # the functions of ways_oracle.py, with the cases that the lesson claims
    "list_and_cat": cases(),
    "single": cases(shape=(3,)),
    "in_the_background": cases(worlds=(1, 3)),
    "gather_all": cases(dims=(0, 3)),
    "ring_all_gather": cases(dims=(0, 3), layouts=("contiguous",)),
    "gather_on_the_root": cases(dtypes=SIGNED),
    "gather_on_another_root": cases(dtypes=SIGNED, worlds=(2, 5)),
    "scatter_back": cases(dtypes=SIGNED, layouts=DENSE),
    "blocks_of_columns": cases(dims=(2, 3)),
    "take_home_4": cases(dims=(2, 3), along=1),
    "mean_on_root": cases(shape=(3, 2), dtypes=["float64"]),
    "sort_across_ranks": cases(dims=(1, 1), dtypes=SIGNED),
    "down_and_across": cases(dims=(2, 3), dtypes=SIGNED),
    "from_flat_to_across": cases(shape=(2, 4), dtypes=["int64"]),
    "into_slices": cases(shape=(2, 4), dtypes=["int64"]),
    "order_of_a_sampler": cases(shape=(10,), dtypes=SIGNED),
    "take_home_5": cases(dims=(2, 3), along=1),
    "gather_cat_dim": cases(),
    "in_dataset_order": cases(dims=(1, 3)),
    "snippet_mended": cases(),
    "broadcast_in_place": cases(worlds=(2, 5), layouts=("contiguous",)),
    "keep_and_tell": cases(dims=(1, 1), dtypes=SHARED[:3]),
    "broadcast_object": cases(),
    "same_parameters": cases(),
    "broadcast_in_a_group": cases(worlds=(4, 5), layouts=("contiguous",)),
    "broadcast_any": cases(
        dims=(0, 4), dtypes=SHARED, layouts=("contiguous",), root=st.integers(0, 4)
    ),
    "objects": cases(dims=(1, 1), along=0),
    "pad_and_trim": cases(dims=(1, 1), along=0, dtypes=SIGNED),
    "split_sizes": cases(dims=(1, 1), along=0, dtypes=SIGNED),
    "slices_of_one_result": cases(  # torch refuses a list of no messages
        dims=(1, 1), along=0, dtypes=SIGNED, worlds=(2, 5), layouts=("contiguous",)
    ).filter(lambda case: any(shape[0] for shape in case["shapes"])),
    "one_broadcast_a_rank": cases(dims=(1, 1), along=0, dtypes=SIGNED),
    "ragged_columns": cases(shape=(2, 0), along=1, dtypes=SIGNED),
    "gather_uneven": cases(along=0),
    "gather_lists": cases(lists=lengths),
    "take_home_8": cases(shape=(2, 0), along=1),
    "eight_ways": cases(),
    "in_pieces": cases(shape=(8,), dtypes=["float32"]),
    "gather_within": cases(),
    "gathers_and_their_gradients": cases(),
    "send_back": cases(),
    "value_and_own_piece": cases(rows=rows),
    "table_of_ways": cases(rows=rows),
    "contrast_and_ddp": cases(),
    "mean_of_means": cases(sizes=few(1, 6)),
    "shard_gradient": cases(),
    "mean_gradient": cases(dims=(2, 2), along=0),
    "undo_the_deal": cases(shape=(7,)),
    "dataset_order": cases(count=count),
    "rows_with_their_numbers": cases(count=st.integers(5, 40)),
    "count_and_list": cases(count=count),
}
SLOW = {"in_the_background", "contrast_and_ddp", "same_parameters"}


def cells(path):
    """Return the code of a notebook by the id of its cell.

    Loops that stand in a text go by what comes before their first colon.
    """
    notebook = Notebook(path)
    code = {cell.id: re.sub(r"%%px.*\n", "", cell.source) for cell in notebook.code}
    loops = re.findall(r"`(for [^`]+)`", notebook.prose)
    return {**code, **{loop.partition(":")[0]: loop for loop in loops}}


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """Return five ranks that hold the cells of all notebooks."""
    shown = {path.name[:2]: cells(path) for path in NOTEBOOKS.glob("[01]*.ipynb")}
    for path in NOTEBOOKS.glob("solutions/*.ipynb"):
        shown[f"{path.name[:2]}s"] = cells(path)
    folder = tmp_path_factory.mktemp("stores")
    with launch(5) as ranks:
        for name, source in SOURCES.items():
            ranks.view.execute(MODULE.format(name=name, source=source), block=True)
        ranks.view.execute("import ways_oracle", block=True)
        ranks.run(eval, f"ways_oracle.CELLS.update({shown!r})")
        stores = map(str, map(folder.joinpath, map(str, itertools.count())))
        yield types.SimpleNamespace(ranks=ranks, stores=stores, shown=shown)


def examine(five, way):
    """Run a way on generated cases; raise AssertionError where it is wrong."""

    @settings(
        max_examples=FEW if way in SLOW else MANY,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
        derandomize=True,
        phases=[Phase.generate],  # to shrink what hangs would take minutes
    )
    @given(case=WAYS[way])
    def every_case(case):
        call = f"ways_oracle.compare({way!r}, {case!r}, {next(five.stores)!r})"
        found = five.ranks.run(eval, call, targets=case["members"])
        assert found == [[]] * len(found)

    every_case()


@pytest.mark.parametrize("way", WAYS)
def test_equals_one_process(five, way):
    examine(five, way)


def test_every_way_of_the_oracle_is_tried():
    body = ast.parse(SOURCES["ways_oracle"]).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    ways = {f.name for f in functions if [a.arg for a in f.args.args] == ["case"]}
    assert ways - {"predictions"} == set(WAYS)


WRONG_EDITS = [  # notebook, cell, what stands there, a wrong edit of it, its way
    ("03", "gather", " for _ in range(world_size)]", "] * world_size", "list_and_cat"),
    ("03", "cat-alone", "cat(buffers)", "cat(buffers[::-1])", "list_and_cat"),
    ("03s", "exercise-3-2", "rank - step)", "rank + step)", "ring_all_gather"),
    ("04", "scatter", ".flip(0)", "", "scatter_back"),
    ("05", "flat", "permute(1, 0, 2)", "permute(0, 1, 2)", "from_flat_to_across"),
    ("05", "across", "dim=1", "dim=0", "down_and_across"),
    ("05", "order", ".T", "", "order_of_a_sampler"),
    ("05s", "exercise-5-1", "flatten(dim, dim + 1)", "flatten(0, 1)", "gather_cat_dim"),
    ("06", "header", "kept.dtype", "torch.float64", "keep_and_tell"),
    ("06s", "exercise-6-1", "sizes[:dims]", "sizes[:1]", "broadcast_any"),
    ("08", "pad", "[:n]", "", "pad_and_trim"),
    ("08", "slices", "slices[rank].copy_(shard)", "", "slices_of_one_result"),
    ("08", "ragged", "wide = tall.t()", "wide = tall.view(2, -1)", "ragged_columns"),
    ("11", "own", "= part", "= part.detach()", "value_and_own_piece"),
    ("11s", "exercise-11-1", "pieces[dist.get_rank()] = mine", "", "shard_gradient"),
    ("11s", "exercise-11-2", "leaf.grad / rows", "leaf.grad", "mean_gradient"),
    ("12", "restore", ".t()", "", "undo_the_deal"),
]


@contextlib.contextmanager
def edited(five, notebook, cell, old, new):
    """Change a cell on the ranks, and put it back."""
    source = five.shown[notebook][cell]
    assert old in source, "the lesson has changed: choose another wrong edit here"
    wrong = source.replace(old, new)
    ast.parse(wrong)  # the edit is to be wrong, not misspelt
    put = "ways_oracle.CELLS[{!r}][{!r}] = {!r}".format
    try:
        five.ranks.run(exec, put(notebook, cell, wrong))
        yield
    finally:
        five.ranks.run(exec, put(notebook, cell, source))


@pytest.mark.soak
@pytest.mark.parametrize("edit", WRONG_EDITS, ids=lambda e: f"{e[0]}-{e[1]}-{e[2]}")
def test_a_wrong_edit_of_a_lesson_is_noticed(five, edit):
    *change, way = edit
    with edited(five, *change), pytest.raises((AssertionError, RankError)):
        examine(five, way)
