"""The wheel alone, without extras: what is in it, and where its ranks run.

The environment has torch, ipyparallel and ipykernel, and neither matplotlib nor numpy
nor JupyterLab. Whoever has no JupyterLab has a terminal, a script, or a kernel that
an editor starts.
"""

import json
import zipfile
from pathlib import Path

import pexpect
import pytest
import worlds
from environments import ROOT, environment, run

pytestmark = pytest.mark.soak  # it builds an environment
MOST = 1_000_000  # bytes of the wheel
OLDEST = ("ipykernel==6.29.0",)  # that the wheel takes; for torch see README
ABSENT = ("matplotlib", "numpy", "PIL", "sklearn", "jupyterlab", "nbformat", "pytest")
SCRIPT = f"""\
from importlib.util import find_spec
from course_utils import launch

def rank():
    from torch import distributed as dist
    return dist.get_rank()

if __name__ == "__main__":
    print([name for name in {ABSENT} if find_spec(name)])
    with launch(2) as ranks:
        print(ranks.run(rank))
"""
GATHER = """\
%%px
import torch
from torch import distributed as dist
shard = torch.tensor([10 * dist.get_rank()])
parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
dist.all_gather(parts, shard)
torch.cat(parts).tolist()"""
GATHERED = "[ranks 0–1] [0, 10]\n"


@pytest.fixture(scope="module", params=[(), OLDEST], ids=["pinned", "oldest"])
def python(wheel, tmp_path_factory, request) -> Path:
    """Return the Python of an environment with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("base") / "env"
    return environment(folder, wheel, older=request.param)


def test_the_wheel_is_the_package_and_nothing_of_its_tests(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = {Path(name) for name in file.namelist()}
    assert wheel.stat().st_size < MOST
    parts = {name.parts[0] for name in names if ".d" not in name.parts[0]}
    assert parts == {"course_utils", "course_utils_plugins.py"}
    package = {p.relative_to(ROOT) for p in (ROOT / "course_utils").rglob("*.py")}
    assert package <= names and Path("course_utils/py.typed") in names


def test_a_script(python, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(python, "script.py", folder=tmp_path)
    assert done.stdout == "[]\n[0, 1]\n", done.stderr
    assert done.stderr == ""


def test_an_ipython_terminal(python, tmp_path):
    command = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    env = worlds.environment(tmp_path, IPYTHONDIR=str(tmp_path), TERM="dumb")
    child = pexpect.spawn(
        str(python), command, env=env, cwd=tmp_path, timeout=60, encoding="utf-8"
    )
    for line in ("from course_utils import launch", "ranks = launch(2)"):
        child.expect(r"In \[\d+\]: ")
        child.sendline(line)
    child.expect(r"In \[\d+\]: ")
    child.sendline("%px import torch.distributed as dist; print(dist.get_rank() * 7)")
    child.expect(r"\[rank 0\]\s+0\s+\[rank 1\]\s+7")
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert worlds.left_of(env[worlds.MARK]) == []


@pytest.fixture(scope="module")
def kernel(python, tmp_path_factory):
    """Return a notebook whose kernel is plain ipykernel there, as an editor's is."""
    folder = tmp_path_factory.mktemp("kernel")
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    described = {"argv": argv, "display_name": "base", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(described))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        with worlds.notebook(folder) as book:
            yield book


def test_a_cell_before_launch_is_told_what_to_do(kernel):
    assert "%%px needs ranks" in worlds.stream(kernel.run("%%px\n1"), "stderr")


def test_a_cell_of_a_plain_kernel(kernel):
    kernel.good("from course_utils import launch\nranks = launch(2)")
    assert kernel.good(GATHER) == GATHERED


def test_concat_and_check(kernel):
    source = "from course_utils.concat import all_gather_cat\nall_gather_cat(shard)"
    assert "[0, 10]" in kernel.good(f"%%px\n{source}.tolist()")
    said = kernel.good("from course_utils import check\ncheck('3.1', ranks)")
    assert "no rank has a function gather_all" in said


def test_without_matplotlib_a_picture_is_its_text(kernel):
    said = kernel.good("ranks.show('shard')")
    assert "   0  [0]\n   1  [10]\n" in said
    assert "(no picture: " in said
    assert "pip install 'course-utils[course]')" in said
    played = kernel.good("ranks.replay('dist.barrier()')")
    assert "nothing to replay" in played or "course-utils[course]" in played


def test_what_needs_an_extra_names_it(kernel):
    said = kernel.failure("from course_utils.pictures import plot")
    assert "MissingExtra" in said and "course-utils[course]" in said
    kernel.good("ranks.stop()")
