"""Replays from made-up recordings: order, steps, scenes, text, and the file."""

import io
import itertools
from textwrap import dedent

import numpy as np
import pytest
import torch
from PIL import Image

from course_utils.pictures.colour import rank_colour
from course_utils.pictures.layout import Snapshot
from course_utils.pictures.paint import paled
from course_utils.replay.animation import Replay
from course_utils.replay.messages import Operation, Recording, messages
from course_utils.replay.scenes import ALL, FIRST, LAST, LENGTH, MOST, SHORTEST, scenes
from course_utils.replay.stage import Stage
from course_utils.replay.story import story

pytestmark = pytest.mark.unit

WORLD = ("", 0)
HOP = 1000  # ns


def piece(rank: int, size: int = 2) -> Snapshot:
    return Snapshot.of(100 * rank + torch.arange(size))


def send(to, begun, began, what, ended=None):
    ended = begun + 1 if ended is None else ended
    return Operation(True, to, WORLD, begun, began, what, ended, began + 1)


def recv(source, begun, began, ended, end, what):
    return Operation(False, source, WORLD, begun, began, what, ended, end)


def ring(count: int, late: int | None = None, delay: int = 0, size: int = 2):
    """Return what the ranks of a ring record in which one begins late."""
    every = []
    for rank in range(count):
        operations = []
        for step in range(1, count):
            began = 10 * HOP * step + (delay if rank == late or step > 1 else 0)
            mine = piece((rank - step + 1) % count, size)
            theirs = piece((rank - step) % count, size)
            left, right = (rank - 1) % count, (rank + 1) % count
            moment, end = 4 * step, began + HOP
            if left == late and step == 1:
                end += delay
            operations.append(send(right, moment, began, mine, moment + 3))
            operations.append(
                recv(left, moment + 1, began, moment + 2, end, theirs),
            )
        every.append(Recording(0, piece(rank, size), tuple(operations)))
    return tuple(every)


def test_a_ring_has_a_step_for_each_hop():
    found = messages(ring(4))
    assert [(m.step, m.src, m.dst) for m in found] == [
        (step, rank, (rank + 1) % 4) for step in (1, 2, 3) for rank in range(4)
    ]
    assert all(m.got > m.sent for m in found)


def test_steps_do_not_depend_on_the_clock():
    steps = [[m.step for m in messages(ring(4, late, 10**9))] for late in range(4)]
    assert steps == [[m.step for m in messages(ring(4))]] * 4


def test_first_send_belongs_to_the_first_receive_of_its_channel():
    one, two, tagged = piece(1), piece(2), piece(3)
    mine = [send(1, 1, 0, one), send(1, 3, 5, two)]
    mine.append(Operation(True, 1, ("", 7), 5, 6, tagged, 6, 7))
    theirs = [
        Operation(False, 0, ("", 7), 0, 0, tagged, 1, 8),
        recv(0, 2, 9, 3, 10, one),
        recv(0, 4, 11, 5, 12, two),
    ]
    found = messages([Recording(0, None, tuple(x)) for x in (mine, theirs)])
    assert [(m.piece, m.got) for m in found] == [(one, 10), (two, 12), (tagged, 8)]


def test_one_after_another_is_two_steps_and_together_is_one():
    def steps(*sends):
        idle = Recording(0, None, ())
        found = messages([Recording(0, None, sends), idle, idle])
        return [m.step for m in found]

    assert steps(send(1, 1, 0, piece(0)), send(2, 3, 5, piece(0))) == [1, 2]
    assert steps(send(1, 1, 0, piece(0), 3), send(2, 2, 1, piece(0), 4)) == [1, 1]


def test_clocks_that_differ_never_let_a_message_come_before_it_left():
    mine = Recording(0, None, (send(1, 1, 1000, piece(0)),))
    theirs = Recording(0, None, (recv(0, 1, 0, 2, 500, piece(0)),))
    assert messages([mine, theirs])[0].got == 1000


def test_pieces_stand_in_rank_order_and_all_arrive():
    told = story(ring(4))
    assert told.pieces == tuple(map(piece, range(4)))
    assert told.first == tuple(frozenset({rank}) for rank in range(4))
    assert told.last == [{0, 1, 2, 3}] * 4


def test_what_a_rank_makes_on_the_way_is_not_there_before():
    first = Recording(0, piece(0), (send(1, 1, 10, piece(0)),))
    second = Recording(
        0,
        piece(1),
        (recv(0, 1, 0, 2, 20, piece(0)), send(2, 3, 30, piece(5))),
    )
    third = Recording(0, piece(2), (recv(1, 1, 0, 2, 40, piece(5)),))
    told = story([first, second, third])
    number = told.number(piece(5))
    assert all(number not in held for held in told.first)
    assert [(c.time, c.rank) for c in told.changes if c.piece == number] == [
        (30, 1),
        (30, 1),
        (40, 2),
    ]


def test_a_shard_that_stays_at_home_is_not_drawn():
    made = [Recording(r.start, Snapshot.of(7), r.operations) for r in ring(3)]
    told = story(made)
    assert told.pieces == tuple(map(piece, range(3)))
    assert told.first == tuple(frozenset({rank}) for rank in range(3))


def test_scenes_follow_the_clock_and_show_each_message_on_its_way():
    told = story(ring(4))
    seen = scenes(told)
    assert len(seen) == 1 + 2 * 3  # three times: all leave, all arrive
    assert [len(scene.flying) for scene in seen] == [0, 4, 0, 4, 0, 4, 0]
    assert [len(scene.arrived) for scene in seen] == [0, 0, 4, 4, 8, 8, 12]
    assert [scene.time for scene in seen] == sorted(scene.time for scene in seen)
    assert seen[-1].held == tuple(map(frozenset, told.last))


def test_time_on_screen_is_proportional_with_a_least():
    seen = scenes(story(ring(4, late=2, delay=10**6)))
    whole = seen[-1].time
    for one, other in zip(seen[1:], seen[2:], strict=False):
        shown = LENGTH * (other.time - one.time) / whole
        assert one.seconds == pytest.approx(max(SHORTEST, shown))
    assert seen[0].seconds == FIRST and seen[-1].seconds == LAST
    longest = max(seen[1:-1], key=lambda scene: scene.seconds)
    assert longest.seconds > LENGTH / 2
    late = {told.src for told in messages(ring(4)) if told.step == 1} - {2}
    flying = {story(ring(4)).messages[i].src for i in longest.flying}
    assert flying <= late  # the others wait for rank 2


def test_many_changes_stay_few_scenes_of_a_few_seconds():
    seen = scenes(story(ring(12)))
    assert len(seen) <= MOST + 1
    assert sum(scene.seconds for scene in seen) <= ALL + LENGTH + FIRST + LAST


def test_text_of_a_ring():
    expected = """
    ring(shard): 6 messages in 2 steps

    step  0→1        1→2        2→0
       1  [0 1]      [100 101]  [200 201]
       2  [200 201]  [0 1]      [100 101]

    rank  in the end
       0  [0 1]  [100 101]  [200 201]
       1  [0 1]  [100 101]  [200 201]
       2  [0 1]  [100 101]  [200 201]
    """
    made = Replay("ring(shard)", ring(3))
    assert repr(made) == dedent(expected).strip()
    assert repr(Replay("ring(shard)", ring(3, late=1, delay=10**9))) == repr(made)


def test_text_of_large_pieces_says_shape_and_rank():
    text = repr(Replay("ring(shard)", ring(2, size=300)))
    assert "(300,) of rank 1" in text and max(map(len, text.splitlines())) < 80


def test_text_of_a_message_that_nobody_received():
    mine = Recording(0, piece(0), (send(1, 1, 10, piece(0)),))
    text = repr(Replay("f(shard)", (mine, Recording(0, piece(1), ()))))
    assert "1 message in 1 step" in text and "[0 1] not received" in text
    assert text.splitlines()[-1].split() == ["1", "—", "[100", "101]"]


def test_nothing_was_sent():
    silent = Replay("ring(shard)", (Recording(0, piece(0), ()),) * 2)
    text = "nothing to replay: ring(shard) sends no message"
    assert repr(silent) == text
    assert silent._repr_mimebundle_() == ({"text/plain": text}, {})
    with pytest.raises(ValueError, match="sends no message"):
        silent.save("x.png")


def test_too_many_messages_for_a_picture():
    sends = tuple(send(1, 2 * i, i, piece(0)) for i in range(300))
    made = Replay("f()", (Recording(0, None, sends), Recording(0, None, ())))
    assert "sends 300 messages" in repr(made) and "\n" not in repr(made)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.fixture(scope="module")
def made() -> Replay:
    return Replay("ring(shard)", ring(4, late=2, delay=10**6))


def test_png_has_the_frames_for_as_long_as_the_scenes(made):
    image = opened(made.png)
    seen = scenes(made.story)
    assert image.format == "PNG" and image.info["loop"] == 0
    assert image.default_image and image.n_frames == len(seen) + 1
    for number, scene in enumerate(seen, start=1):
        image.seek(number)
        assert image.info["duration"] == round(1000 * scene.seconds)


def test_frames_are_read_as_they_were_drawn(made):
    png, gif, drawn = opened(made.png), opened(made.film.gif()), made.film.images()
    for number, frame in enumerate(drawn):
        png.seek(number + 1)
        gif.seek(number)
        for image in (png, gif):
            same = np.asarray(image.convert("RGB")) == np.asarray(frame.convert("RGB"))
            assert same.all()
    still = opened(made.png).convert("RGB")
    assert (np.asarray(still) == np.asarray(drawn[-1].convert("RGB"))).all()


def test_a_piece_is_pale_on_its_way_and_has_its_ranks_colour_when_it_is_there(made):
    seen, frames = scenes(made.story), made.film.images()
    stage, scale = Stage(made.story, made.expression), 200
    for scene, frame in zip(seen, frames, strict=True):
        coming = {(m.dst, made.story.number(m.piece)) for m in stage.flying(scene)}
        image = frame.convert("RGB")
        for rank, origin in itertools.product(range(4), range(4)):
            x = stage.lefts[origin] + stage.cell_width * 0.85
            y = stage.top(rank) + stage.height * 0.85
            colour = "#ffffff"
            if origin in scene.held[rank]:
                colour = rank_colour(origin)
            elif (rank, origin) in coming:
                colour = paled(rank_colour(origin))
            found = image.getpixel((round(x * scale), round(y * scale)))
            assert "#" + bytes(found).hex() == colour, (scene, rank, origin)


def area(image: Image.Image, colour: str) -> int:
    """Return how many pixels have a colour."""
    pixels = np.asarray(image.convert("RGB"))
    return int((pixels == list(bytes.fromhex(colour[1:]))).all(axis=2).sum())


def test_first_and_last_frame_are_good_stills(made):
    first, second, *_, last = made.film.images()
    for rank in range(4):
        colour, pale = rank_colour(rank), paled(rank_colour(rank))
        block = area(first, colour)
        assert area(last, colour) > 2 * block > 2000
        assert max(area(first, pale), area(last, pale)) < block / 10
    assert area(second, paled(rank_colour(0))) > area(first, rank_colour(0)) / 3


def test_layout_does_not_jump(made):
    frames = made.film.images()
    assert len({frame.size for frame in frames}) == 1
    chips = {
        frame.convert("RGB").crop((0, 0, 80, frame.height)).tobytes()
        for frame in frames
    }
    assert len(chips) == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 2), (2, 2, 2), (40,), (9, 9)])
def test_pieces_of_every_shape_are_drawn(shape):
    count = int(np.prod(shape))
    shards = [
        Snapshot.of(rank + torch.arange(count).reshape(shape)) for rank in (0, 90)
    ]
    every = [
        Recording(
            0,
            shards[rank],
            (
                send(1 - rank, 1, 10, shards[rank], 4),
                recv(1 - rank, 2, 10, 3, 30, shards[1 - rank]),
            ),
        )
        for rank in (0, 1)
    ]
    made = Replay("swap(shard)", tuple(every))
    assert opened(made.png).n_frames == 4 and "2 messages in 1 step" in repr(made)


def test_equal_shards_have_no_colour():
    """Where two ranks begin with the same values, nobody can tell whose they are."""
    same = Snapshot.of(torch.zeros(2))
    every = tuple(
        Recording(
            0,
            same,
            (send(1 - rank, 1, 1, same, 4), recv(1 - rank, 2, 2, 3, 9, same)),
        )
        for rank in (0, 1)
    )
    made = Replay("swap(shard)", every)
    stage = Stage(made.story, "")
    place = stage.lefts[0] + 0.1, stage.top(0) + stage.height * 0.85
    image = made.film.images()[0].convert("RGB")
    assert image.getpixel(tuple(round(200 * inches) for inches in place)) == (255,) * 3


def test_saved_for_slides(made, tmp_path):
    made.save(tmp_path / "ring.png")
    made.save(str(tmp_path / "ring.GIF"))
    assert (tmp_path / "ring.png").read_bytes() == made.png
    assert Image.open(tmp_path / "ring.GIF").format == "GIF"
    with pytest.raises(ValueError, match="ends in .png or .gif, got 'ring.svg'"):
        made.save(tmp_path / "ring.svg")


def test_jupyter_gets_png_and_text(made):
    data, metadata = made._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    width, height = opened(made.png).size
    assert metadata == {"image/png": {"width": width // 2, "height": height // 2}}
    assert len(made.png) < 150_000
