"""`course_utils.concat` in a script that torchrun starts from another folder."""

import json
import subprocess
import sys

import pytest
import worlds

SCRIPT = """
import json
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from course_utils import concat

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()

shard = 100 * rank + torch.arange(2 * rank).reshape(rank, 2)  # rank 0 holds no row
full = concat.all_gather_cat(shard)
chunk = concat.scatter_chunks(full if rank == 0 else None)
root = concat.gather_cat(shard, dst=1)
seen = {
    "full": full.tolist(),
    "wide": concat.all_gather_cat(shard.t(), dim=1).tolist(),
    "root": root if root is None else root.tolist(),
    "told": concat.broadcast_tensor(shard if rank == 2 else None, src=2).tolist(),
    "list": [row.tolist() for row in concat.all_gather_list(list(shard))],
    "back": concat.all_gather_cat(chunk).tolist(),
}
try:
    concat.all_gather_cat(shard.double() if rank == 1 else shard)
except concat.ConcatError as error:
    seen["error"] = str(error)
seen["after"] = concat.all_gather_cat(torch.tensor(rank)).tolist()
seen["client"] = "ipyparallel" in sys.modules or "matplotlib" in sys.modules
with open(f"rank-{rank}.json", "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
"""
FULL = [[100, 101], [200, 201], [202, 203]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """Run the script on three ranks; return what each of them wrote."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "join.py").write_text(SCRIPT)
    env = worlds.environment(folder, OMP_NUM_THREADS="1")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    try:
        done = subprocess.run(
            [*torchrun, "--standalone", "--nproc-per-node=3", "join.py"],
            cwd=folder,
            env={k: v for k, v in env.items() if k != "PYTHONPATH"},
            timeout=worlds.LIMIT,
            capture_output=True,
            text=True,
        )
    finally:
        worlds.end(env[worlds.MARK])
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(3)]


def test_ragged_shards_are_joined_on_every_rank(seen):
    assert [rank["full"] for rank in seen] == [FULL] * 3
    columns = [list(column) for column in zip(*FULL, strict=True)]
    assert [rank["wide"] for rank in seen] == [columns] * 3
    assert [rank["list"] for rank in seen] == [FULL] * 3


def test_only_the_root_holds_what_is_gathered(seen):
    assert [rank["root"] for rank in seen] == [None, FULL, None]


def test_receivers_need_no_tensor(seen):
    assert [rank["told"] for rank in seen] == [[[200, 201], [202, 203]]] * 3
    assert [rank["back"] for rank in seen] == [FULL] * 3


def test_every_rank_gets_the_error_and_goes_on(seen):
    assert len({rank["error"] for rank in seen}) == 1
    assert "disagree on the dtype; rank 1 differs" in seen[0]["error"]
    assert [rank["after"] for rank in seen] == [[0, 1, 2]] * 3


def test_a_script_loads_nothing_of_the_notebook(seen):
    assert not any(rank["client"] for rank in seen)
