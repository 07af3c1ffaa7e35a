"""Files for other people's machines: CI, images, Binder, templates for issues.

Nothing of them runs here as it does there. What they say is read, held against the
schemas of those who read it, and their commands are those of the Makefile.
"""

import json
import re
import shlex
import stat
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import yaml
from environments import ROOT

import course_utils

WORKFLOW = ".github/workflows/test.yml"
GITLAB = ".gitlab-ci.yml"
SCHEMAS = {
    WORKFLOW: "vendor.github-workflows",
    GITLAB: "vendor.gitlab-ci",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ".github/ISSUE_TEMPLATE/bug.yml": "vendor.github-issue-forms",
    ".github/ISSUE_TEMPLATE/lesson.yml": "vendor.github-issue-forms",
    "CITATION.cff": "vendor.citation-file-format",
}
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
LIMIT = 100  # seconds for one tool


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text())


def steps(job: dict) -> list[dict]:
    return job.get("steps", [])


JOBS = read(WORKFLOW)["jobs"]
TWIN = {k: v for k, v in read(GITLAB).items() if isinstance(v, dict) and "script" in v}
GITHUB_LINES = [s["run"] for job in JOBS.values() for s in steps(job) if "run" in s]
GITLAB_LINES = list(chain.from_iterable(job["script"] for job in TWIN.values()))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
KNOWN = {"PYTHON", "ARGS", "CHECK"}


@pytest.mark.unit
@pytest.mark.parametrize("line", [*GITHUB_LINES, *GITLAB_LINES])
def test_every_command_is_a_target_of_the_makefile(line):
    command, target, *settings = shlex.split(line)
    assert command == "make" and target in TARGETS
    assert {setting.partition("=")[0] for setting in settings} <= KNOWN


@pytest.mark.unit
def test_the_twins_run_the_same():
    plain = [line.replace(" PYTHON=python", "") for line in GITLAB_LINES]
    mine = {line for line in GITHUB_LINES if line not in ("make quick", "make slides")}
    assert mine == set(plain)


@pytest.mark.unit
def test_what_nobody_has_seen_green_may_fail():
    expression = "${{ matrix.os == 'macos-latest' }}"
    assert JOBS["test"]["continue-on-error"] == expression
    assert JOBS["windows"]["continue-on-error"] is True
    systems = JOBS["test"]["strategy"]["matrix"]["os"]
    assert systems == ["ubuntu-latest", "macos-latest"]


@pytest.mark.unit
def test_notebooks_that_fail_are_kept():
    kept = next(line for line in GITHUB_LINES if "--keep" in line)
    folder = kept.rpartition("=")[2]
    *_, rerun, upload = steps(JOBS["test"])
    assert rerun["run"] == kept and folder in upload["with"]["path"].split()
    assert rerun["if"] == upload["if"] == "failure()"
    assert TWIN["notebooks"]["artifacts"]["paths"] == [folder]


@pytest.mark.unit
def test_pythons_are_those_that_the_project_takes():
    versions = JOBS["test"]["strategy"]["matrix"]["python"]
    assert versions == TWIN["test"]["parallel"]["matrix"][0]["PYTHON"]
    assert versions[0] == "3.11"


@pytest.mark.unit
@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_asks_something(form):
    asked = read(form.relative_to(ROOT).as_posix())
    ids = [field["id"] for field in asked["body"]]
    assert asked["name"] and asked["description"] and len(ids) == len(set(ids)) > 1


@pytest.mark.unit
def test_the_version_is_one():
    assert read("CITATION.cff")["version"] == course_utils.__version__
    assert f"## {course_utils.__version__} " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.unit
def test_the_container_of_an_editor_is_the_image():
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    build = container["build"]
    assert (
        ROOT / ".devcontainer" / build["dockerfile"]
    ).resolve() == ROOT / "Dockerfile"
    text = (ROOT / "Dockerfile").read_text()
    settings = container["customizations"]["vscode"]["settings"]
    interpreter = settings["python.defaultInterpreterPath"]
    assert f"python -m venv {interpreter.removesuffix('/bin/python')}\n" in text
    assert f"NB_USER={container['remoteUser']}\n" in text
    assert f"RUN {container['postCreateCommand']}\n" in text


@pytest.mark.unit
def test_binder_runs_a_script():
    assert (ROOT / ".binder/postBuild").stat().st_mode & stat.S_IXUSR
    assert (ROOT / ".binder/runtime.txt").read_text().strip() == "python-3.11"


@pytest.mark.soak
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_of_whoever_reads_it(name):
    pytest.importorskip("check_jsonschema", reason="make soak installs it")
    command = [sys.executable, "-m", "check_jsonschema"]
    command += ["--builtin-schema", SCHEMAS[name]]
    done = subprocess.run(
        [*command, str(ROOT / name)], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_hadolint_warns_of_nothing_in_the_image():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("make soak installs it")
    command = [hadolint, "--failure-threshold", "warning", ROOT / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout


@pytest.mark.soak
def test_the_hooks_before_a_commit_are_read(tmp_path):
    pytest.importorskip("pre_commit", reason="make soak installs it")
    command = [sys.executable, "-m", "pre_commit"]
    for check, name in (
        ("validate-config", ".pre-commit-config.yaml"),
        ("validate-manifest", ".pre-commit-hooks.yaml"),
    ):
        done = subprocess.run([*command, check, str(ROOT / name)], timeout=LIMIT)
        assert done.returncode == 0
