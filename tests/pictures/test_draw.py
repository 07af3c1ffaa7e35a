"""The pictures: their text twin to the letter, their pixels and their colours."""

import base64
import io
import itertools
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
import torch
from PIL import Image

from course_utils.pictures.colour import contrast, ink
from course_utils.pictures.draw import picture, rank_colour
from course_utils.pictures.layout import Snapshot

pytestmark = pytest.mark.unit


def draw(**tensors):
    return picture({n: [Snapshot.of(v) for v in held] for n, held in tensors.items()})


def shards(*shape, world_size=4):
    piece = torch.arange(int(np.prod(shape))).reshape(shape)
    return [100 * rank + piece for rank in range(world_size)]


def assert_text(pic, expected):
    assert repr(pic) == dedent(expected).strip("\n")


def test_text_of_all_gather():
    shard = shards(2)
    assert_text(
        draw(shard=shard, full=[torch.cat(shard)] * 4),
        """
        rank  shard      full
           0  [0 1]      [0 1 | 100 101 | 200 201 | 300 301]
           1  [100 101]  [0 1 | 100 101 | 200 201 | 300 301]
           2  [200 201]  [0 1 | 100 101 | 200 201 | 300 301]
           3  [300 301]  [0 1 | 100 101 | 200 201 | 300 301]
        """,
    )


def test_text_of_gather_on_the_root_only():
    shard = shards(1, world_size=3)
    assert_text(
        draw(shard=shard, full=[None, torch.cat(shard), None]),
        """
        rank  shard  full
           0  [0]    —
           1  [100]  [0 | 100 | 200]
           2  [200]  —
        """,
    )


def test_text_of_uneven_and_empty_shards():
    shard = [torch.tensor([0, 1, 2]), torch.tensor([100]), torch.tensor([]).long()]
    assert_text(
        draw(shard=shard, full=[torch.cat(shard)] * 3),
        """
        rank  shard    full
           0  [0 1 2]  [0 1 2 | 100]
           1  [100]    [0 1 2 | 100]
           2  []       [0 1 2 | 100]
        """,
    )


def test_text_of_an_empty_matrix_says_its_shape():
    assert_text(
        draw(shard=[torch.empty(0, 3), torch.ones(1, 3)]),
        """
        rank  shard
           0  [] (0, 3)
           1  [[1. 1. 1.]]
        """,
    )


def test_text_of_0_dim_tensors():
    shard = shards(world_size=2)
    assert_text(
        draw(shard=shard, full=[torch.stack(shard)] * 2),
        """
        rank  shard  full
           0  0      [0 | 100]
           1  100    [0 | 100]
        """,
    )


def test_text_of_cat_along_dim_0():
    shard = shards(2, 2, world_size=2)
    assert_text(
        draw(shard=shard, full=[torch.cat(shard), None]),
        """
        rank  shard        full

           0  [[0 1]       [[  0   1]
               [2 3]]       [  2   3]
                             -------
                            [100 101]
                            [102 103]]

           1  [[100 101]   —
               [102 103]]
        """,
    )


def test_text_of_cat_along_dim_1():
    shard = shards(2, 2, world_size=2)
    assert_text(
        draw(shard=shard, full=[torch.cat(shard, 1)] * 2),
        """
        rank  shard        full

           0  [[0 1]       [[0 1 | 100 101]
               [2 3]]       [2 3 | 102 103]]

           1  [[100 101]   [[0 1 | 100 101]
               [102 103]]   [2 3 | 102 103]]
        """,
    )


def test_text_where_blocks_are_no_columns_or_rows():
    mixed = torch.tensor([[0, 100], [1, 2]])
    assert_text(
        draw(shard=[torch.tensor([0, 1, 2]), torch.tensor([100])], full=[mixed, None]),
        """
        rank  shard    full

           0  [0 1 2]  [[0 | 100]
                             ---
                        [1     2]]

           1  [100]    —
        """,
    )


def test_text_of_the_list_from_all_gather():
    shard = shards(2, world_size=2)
    assert_text(
        draw(shard=shard, pieces=[shard, [None, None]]),
        """
        rank  shard      pieces
           0  [0 1]      [[0 1], [100 101]]
           1  [100 101]  [—, —]
        """,
    )


def test_text_of_slices_side_by_side():
    shard = shards(1, 2, world_size=2)
    assert_text(
        draw(shard=shard, full=[torch.stack(shard), None]),
        """
        rank  shard        full
           0  [[0 1]]      [[[0 1]]  [[100 101]]]
           1  [[100 101]]  —
        """,
    )


def test_text_of_a_list_of_matrices():
    shard = shards(2, 2, world_size=2)
    assert_text(
        draw(pieces=[shard, []]),
        """
        rank  pieces

           0  [[[0 1]   [[100 101]
                [2 3]],  [102 103]]]

           1  []
        """,
    )


def test_text_of_other_values():
    values = torch.tensor([0.5, -2, 1e-9, float("nan"), float("inf")])
    assert_text(
        draw(x=[values, torch.tensor([True, False]), ["ann", "it's"]]),
        """
        rank  x
           0  [0.5 -2. 1e-09 nan inf]
           1  [True False]
           2  ['ann', "it's"]
        """,
    )


def test_text_of_long_tensors_has_an_ellipsis_and_the_true_shape():
    assert_text(
        draw(
            x=[torch.arange(50), torch.arange(1000), torch.empty(9, device="meta")],
            y=[torch.arange(40).reshape(20, 2), None, 7],
        ),
        """
        rank  x                                    y

           0  [0 1 2 3 … 46 47 48 49] (50,)        [[ 0  1]
                                                    [ 2  3]
                                                    [ 4  5]
                                                    [ …  …]
                                                    [36 37]
                                                    [38 39]] (20, 2)

           1  [0 1 2 3 … 996 997 998 999] (1000,)  —

           2  […] (9,)                             7
        """,
    )


def test_text_of_many_slices_shows_the_first_and_the_last():
    assert_text(
        draw(x=[torch.arange(60).reshape(30, 1, 2), None]),
        """
        rank  x
           0  [[[0 1]]  [[…]]  [[58 59]]] (30, 1, 2)
           1  —
        """,
    )


def test_long_list_has_an_ellipsis():
    text = repr(draw(x=[list(range(1000))]))
    assert ", 15, …, 984, " in text


@pytest.mark.parametrize(
    "shape", [(), (3,), (2, 3), (2, 2, 2), (2, 2, 2, 2), (0,), (3, 0)]
)
def test_every_number_of_dimensions_can_be_drawn(shape):
    pic = draw(shard=[torch.ones(shape)] * 2, pieces=[[torch.ones(shape)] * 2, None])
    assert pic.png.startswith(b"\x89PNG")
    assert len(repr(pic).splitlines()) >= 3


@pytest.mark.parametrize(
    ("held", "caption"),
    [
        ([torch.ones(2), torch.ones(2)], "(2,) float32"),
        ([torch.ones(2), None], "(2,) float32"),
        ([torch.ones(2), torch.ones(3)], "different shapes, float32"),
        ([torch.ones(2), torch.ones(2).int()], "different dtypes"),
        ([[torch.ones(2)] * 2] * 2, "list of 2 × (2,) float32"),
        ([[torch.ones(2), torch.ones(3)]] * 2, "list of 2"),
        ([["ann"], []], "different lists"),
        ([torch.ones(2), []], "different types"),
        ([None, None], ""),
    ],
)
def test_caption_says_what_the_ranks_hold(held, caption):
    assert draw(x=held).columns[0].caption == caption


def test_same_list_under_two_names_is_its_own_origin_once():
    held = [Snapshot.of(1), Snapshot.of(1)]
    shard, copy = picture({"shard": held, "copy": held}).columns
    assert [node.slices[0][0][0].origin for node in shard.nodes] == [0, 1]
    assert [node.slices[0][0][0].origin for node in copy.nodes] == [None, None]


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="entry for every rank, got no names"):
        picture({})
    with pytest.raises(ValueError, match="'x': 2, 'y': 1.*put None"):
        picture({"x": [None, None], "y": [None]})
    with pytest.raises(ValueError, match="from 0 upwards, got -1"):
        rank_colour(-1)


def test_nobody_holds_anything():
    assert_text(draw(x=[None, None]), "rank  x\n   0  —\n   1  —")


def pixels(pic):
    return np.asarray(Image.open(io.BytesIO(pic.png)).convert("RGB"))


def hexes(image):
    codes = image.astype(int) @ [1 << 16, 1 << 8, 1]
    return [f"#{code:06x}" for code in np.unique(codes)]


def test_blocks_have_the_colour_of_the_rank_they_came_from():
    shard = shards(1, world_size=4)
    image = pixels(draw(shard=shard, full=[torch.cat(shard[::-1]), None, None, None]))
    row = image[130]  # near the upper edge of the first row of cells, above the text
    ranks = {rank_colour(rank): rank for rank in range(4)}
    seen = [
        ranks[colour] for pixel in row for colour in hexes(pixel) if colour in ranks
    ]
    runs = [rank for rank, _ in itertools.groupby(seen)]
    assert runs == [0, 3, 2, 1, 0]  # the rank's number and its shard, then full


def test_unknown_origin_is_white():
    image = pixels(draw(shard=[torch.tensor([1])], full=[torch.tensor([9, 9, 9])]))
    right = image[:, image.shape[1] // 2 :]
    assert rank_colour(0) not in hexes(right)
    assert rank_colour(0) in hexes(image)


def test_all_of_sixteen_ranks_have_their_colour_in_the_picture():
    shard = shards(1, world_size=16)
    found = hexes(pixels(draw(shard=shard, full=[torch.cat(shard)] + [None] * 15)))
    assert {rank_colour(rank) for rank in range(16)} <= set(found)


def test_png_is_small():
    shard = shards(2)
    pic = draw(shard=shard, pieces=[shard] * 4, full=[torch.cat(shard)] * 4)
    assert len(pic.png) < 30_000


def test_png_carries_nothing_but_the_picture():
    png = draw(x=[1, 2]).png
    kinds, at = [], 8
    while at < len(png):
        kinds.append(png[at + 4 : at + 8])
        at += 12 + int.from_bytes(png[at : at + 4])
    assert set(kinds) == {b"IHDR", b"PLTE", b"IDAT", b"IEND"}


SCRIPT = """
import sys, matplotlib
before = list(dict.items(matplotlib.rcParams))  # reading "backend" imports pyplot
from course_utils.pictures.draw import picture
from course_utils.pictures import Snapshot
png = picture({"x": [Snapshot.of(0.5), Snapshot.of("$a$")]}).png
assert list(dict.items(matplotlib.rcParams)) == before, "rcParams changed"
assert "matplotlib.pyplot" not in sys.modules, "pyplot imported"
assert "torch" not in sys.modules, "torch imported"
print(png.hex())
"""


def test_bytes_are_the_same_in_another_process_and_global_state_is_untouched():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert bytes.fromhex(run.stdout) == draw(x=[0.5, "$a$"]).png


def test_learners_own_style_does_not_change_the_picture():
    import matplotlib

    expected = draw(x=[1, 2]).png
    style = {"font.family": "monospace", "font.size": 30, "figure.facecolor": "red"}
    with matplotlib.rc_context(style):
        assert draw(x=[1, 2]).png == expected


def test_jupyter_gets_png_and_text_at_half_the_pixels():
    pic = draw(x=[1, 2])
    data, metadata = pic._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == repr(pic)
    assert base64.b64decode(data["image/png"]) == pic.png
    width, height = Image.open(io.BytesIO(pic.png)).size
    assert metadata == {"image/png": {"width": width // 2, "height": height // 2}}


# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colour, vision):
    """CIE L*a*b* (D65) of a colour as seen with a colour-vision deficiency."""
    srgb = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize(("world_size", "least"), [(4, 30), (6, 25), (8, 25), (16, 7)])
def test_colours_differ_under_every_colour_vision(vision, world_size, least):
    seen = [lab(rank_colour(rank), vision) for rank in range(world_size)]
    pairs = itertools.combinations(seen, 2)
    assert min(np.linalg.norm(one - other) for one, other in pairs) >= least


def test_first_colours_are_matplotlibs_petroff6():
    from matplotlib import color_sequences
    from matplotlib.colors import to_hex

    expected = [to_hex(colour) for colour in color_sequences["petroff6"]]
    assert [rank_colour(rank) for rank in range(6)] == expected


@pytest.mark.parametrize("rank", range(18))
def test_text_is_readable_on_every_colour(rank):
    colour = rank_colour(rank)
    assert contrast(colour, ink(colour)) >= 4.5


def test_saved_for_a_slide(tmp_path):
    pic = draw(x=[1, 2])
    pic.save(tmp_path / "x.png")
    pic.save(str(tmp_path / "X.PNG"))
    assert (tmp_path / "x.png").read_bytes() == pic.png
    assert (tmp_path / "X.PNG").read_bytes() == pic.png
    with pytest.raises(ValueError, match="ends in .png, got 'x.gif'"):
        pic.save(tmp_path / "x.gif")
