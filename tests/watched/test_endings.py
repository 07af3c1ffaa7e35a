"""How a job ends, as the options say, and where its ranks meet."""

from collections.abc import Iterator

import pytest
from jobs import Jobs

from course_utils.watched import leaving

HEAD = """\
import os, sys, threading, time
import torch
from torch import distributed as dist
"""
INIT = "dist.init_process_group('gloo')\nrank, x = dist.get_rank(), torch.ones(2)\n"
STUCK = "if rank == 0:\n    dist.recv(x, src=1)\nelse:\n    dist.barrier()\n"
REPORT = """\
stuck: ranks 0–2 wait for one another
  [rank 0] waits in recv(src=1) at line 8 of train.py for 1 s
  [ranks 1–2] wait in barrier at line 10 of train.py for 1 s
  likely cause: rank 0 expects that rank 1 sends, but rank 1 waits in barrier
    at line 10 of train.py
"""
LATE = """
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 2:
    from course_utils.watched.meeting import Meeting
    to_store = Meeting.store
    def late(self):
        time.sleep(3)
        return to_store(self)
    Meeting.store = late
where = {"init_method": f"file://{__file__}.store"}
dist.init_process_group("gloo", **where, rank=rank, world_size=world_size)
if rank == 0:
    sys.exit()
dist.barrier()
"""
GOES_ON = """
def end():
    time.sleep(4)
    print("went on", flush=True)
    os._exit(0)
threading.Thread(target=end).start()
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> Iterator[Jobs]:
    running = Jobs(tmp_path_factory.mktemp("jobs"))
    yield running
    running.close()


def test_the_job_ends_with_every_rank_s_report(jobs):
    job = jobs.run(HEAD + "\n" + INIT + STUCK, 3, "--patience 1")
    assert all(REPORT in text for text in job.err)
    assert 1 in job.codes and 0 not in job.codes


def test_every_rank_ends_by_itself_soon_after_the_report(jobs):
    """Nobody ends the others: as under srun, which lets them go on."""
    job = jobs.run(HEAD + "\n" + INIT + STUCK, 3, "--patience 1", launcher="srun")
    assert all(REPORT in text for text in job.err), job.err
    assert job.codes == [1, 1, 1]
    assert leaving.TOGETHER + leaving.FLUSH < 3, "all that a rank waits for before"
    assert job.after < 30, "5 s are promised, and measured by benchmarks/watched.py"


def test_rank_0_leaves_early_and_takes_the_store_along(jobs):
    """As under srun, where the store of the group is in the process of rank 0."""
    early = "if rank == 0:\n    sys.exit()\ndist.barrier()\n"
    job = jobs.run(HEAD + "\n" + INIT + early, 3, "--patience 1", launcher="srun")
    for text in job.err[1:]:
        assert "stuck: ranks 1–2 wait for rank 0\n" in text, job.err
        assert "[rank 0] finished without calling it" in text
    assert job.codes == [1, 1, 1]


def test_a_rank_that_comes_to_the_store_late_is_waited_for(jobs):
    """As where a name server is asked, and does not answer: nothing is known of it."""
    job = jobs.run(HEAD + LATE, 3, "--patience 1")
    for text in job.err[1:]:
        assert "stuck: ranks 1–2 wait for rank 0\n" in text, job.err
        assert "computes" not in text, job.err


@pytest.mark.parametrize("destroy", ["dist.destroy_process_group()", ""])
def test_rank_0_waits_for_the_others_where_it_has_the_store(jobs, destroy):
    script = f"{HEAD}{INIT}dist.barrier()\ntime.sleep(rank)\n{destroy}\nprint('done')\n"
    job = jobs.run(script, 3, "--patience 1", launcher="srun")
    assert (job.codes, job.out) == ([0] * 3, ["done\n"] * 3)
    said = "".join(job.err)  # torch may warn that a last message found no store
    assert "stuck:" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("mpiexec", "which mpiexec does not set: before it, export MASTER_ADDR=HOST"),
        ("", "which are not set: start the script with torchrun"),
    ],
)
def test_where_to_meet_has_to_be_said(jobs, launcher, words):
    job = jobs.run(HEAD + INIT, 2, launcher=launcher)
    for text in job.err:
        said = next(
            line for line in text.splitlines() if "init_process_group needs" in line
        )
        assert said.startswith("ValueError: init_process_group needs")
        assert "MASTER_ADDR" in said and words in said
    assert job.codes == [1, 1]


def test_what_was_printed_before_is_not_lost(jobs):
    script = HEAD + "\n" + INIT + "print('before', end='')\n" + STUCK
    job = jobs.run(script, 3, "--patience 1")
    ended = [out for out, code in zip(job.out, job.codes, strict=True) if code == 1]
    assert ended and set(ended) == {"before"}


def test_report_goes_on(jobs):
    script = HEAD + "\n" + INIT + STUCK
    script = script.replace("if rank == 0:", GOES_ON + "if rank == 0:", 1)
    job = jobs.run(script, 3, "--patience 1 --on-stuck report")
    assert job.codes == [0, 0, 0]
    assert job.out == ["went on\n"] * 3
    assert [text.count("stuck: ") for text in job.err] == [1, 1, 1]


def test_debug_shows_the_stacks(jobs):
    script = HEAD + "\n" + INIT + STUCK
    script = script.replace("if rank == 0:", GOES_ON + "if rank == 0:", 1)
    job = jobs.run(script, 3, "--patience 1 --on-stuck debug")
    assert job.out == ["went on\n"] * 3
    for text in job.err:
        assert "goes on; its threads:" in text
        assert 'train.py", line 9 in end' in text


def test_a_rank_that_does_not_come_to_init(jobs):
    late = "if os.environ['RANK'] == '1':\n    sys.exit()\n"
    job = jobs.run(HEAD + late + INIT, 3, "--patience 1")
    for rank in (0, 2):
        assert "stuck: ranks 0, 2 wait for rank 1" in job.err[rank]
        assert "wait in init_process_group at line 6 of train.py" in job.err[rank]
        assert "[rank 1] finished" in job.err[rank]


@pytest.mark.parametrize("method", ["file", "tcp"])
def test_ranks_that_no_launcher_told_where_to_meet(jobs, method, tmp_path):
    at = f"file://{tmp_path}/meeting" if method == "file" else "tcp://127.0.0.1:29871"
    init = f"dist.init_process_group('gloo', init_method='{at}', "
    init += "rank=int(os.environ['MY_RANK']), world_size=3)\n"
    script = HEAD + init + INIT.partition("\n")[2] + "\n" + STUCK
    job = jobs.run(script, 3, "--patience 1", launcher="")
    assert all(REPORT in text for text in job.err), job.err


def test_a_branch_in_another_file_is_the_cause(jobs):
    (jobs.folder / "meeting.py").write_text(
        "from torch import distributed as dist\ndef meet():\n    dist.barrier()\n"
    )
    script = HEAD + "from meeting import meet\n" + INIT + "dist.barrier()\n"
    script += "def main():\n    if rank > 0:\n        meet()\nmain()\n"
    job = jobs.run(script, 3, "--patience 1")
    cause = "likely cause: line 10 of train.py stands under `if rank > 0:`, so rank 0"
    for text in job.err[1:]:
        assert "[ranks 1–2] wait in barrier at line 3 of meeting.py" in text
        assert cause in text


def test_a_return_before_the_call_is_the_cause(jobs):
    script = HEAD + "\n" + INIT + "dist.barrier()\n"
    script += (
        "def main():\n    if rank == 0:\n        return\n    dist.barrier()\nmain()\n"
    )
    job = jobs.run(script, 3, "--patience 1")
    cause = "rank 0 left before barrier at line 10 of train.py, under `if rank == 0:`"
    assert cause in " ".join(job.err[1].split())


def test_the_guard_names_file_and_lines(jobs):
    script = HEAD + "\n" + INIT + "dist.broadcast(torch.ones(2 + rank), src=0)\n"
    job = jobs.run(script, 3, "--guard")
    table = "rank  operation  root  shape  dtype    line of train.py\n"
    rows = [f"{r}     broadcast  0     ({2 + r},)   float32  7\n" for r in range(3)]
    for text in job.err:
        assert "[ranks 0–2] the ranks disagree on the shape of broadcast" in text
        assert table in text and all(row in text for row in rows)


@pytest.mark.parametrize("code", ["0", "None"])
def test_sys_exit_without_an_error_is_an_end_like_any_other(jobs, code):
    job = jobs.run(f"{HEAD}{INIT}dist.barrier()\nsys.exit({code})", 3, "--patience 1")
    assert job.codes == [0, 0, 0]
    assert job.err == ["", "", ""]


def test_arguments_and_name_are_those_of_python_itself(jobs):
    script = "import sys\nprint(__name__, sys.argv[1:], sys.path[0])\n"
    script += "class A: pass\nimport pickle\npickle.loads(pickle.dumps(A()))\n"
    job = jobs.run(script, 2, "", "--lr", "3")
    assert job.out == [f"__main__ ['--lr', '3'] {jobs.folder}\n"] * 2
