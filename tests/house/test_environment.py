"""pyproject.toml, every requirements.txt and environment.yml agree."""

import contextlib
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)$", re.M)
BASE = "requirements.txt"
MORE = {  # what is installed beside these for one purpose only
    "requirements-book.txt": "book",
    "requirements-soak.txt": "soak",
    "requirements-hub.txt": "hub",
}
TEXTS = {name: (ROOT / name).read_text() for name in (BASE, *MORE)}
LINES = {
    name: [line for line in text.splitlines() if line and line[0] != "#"]
    for name, text in TEXTS.items()
}


def pins(*names: str) -> dict[str, str]:
    """Return the pinned packages of these files."""
    found = (PIN.finditer(TEXTS[name]) for name in names)
    return {canonicalize_name(m["name"]): m["version"] for ms in found for m in ms}


PINS = pins(*TEXTS)
# Brought by the torch wheel from PyPI on Linux; the CPU wheel needs none of them.
CUDA = re.compile(r"nvidia-.*|cuda-.*|triton")
EXTRAS = PROJECT["optional-dependencies"] | SETTINGS["dependency-groups"]
WANTED = [
    Requirement(text)
    for texts in (PROJECT["dependencies"], *EXTRAS.values())
    for text in texts
]


def installed() -> dict[str, str]:
    """Return the versions of the pinned packages that this platform has."""
    found = {}
    for name in PINS:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def test_every_line_is_one_exact_pin():
    """No ranges, local versions (+cpu), paths, addresses or options."""
    for name, lines in LINES.items():
        assert [line for line in lines if not PIN.fullmatch(line)] == []
        assert len(pins(name)) == len(lines), "a package is pinned twice"


@pytest.mark.parametrize("name", MORE)
def test_no_two_files_that_are_installed_together_pin_the_same(name):
    assert set(pins(BASE)) & set(pins(name)) == set()
    both = set(PINS) & set(pins(name))
    assert {key: PINS[key] for key in both} == {key: pins(name)[key] for key in both}


def test_no_address_and_no_path_of_a_machine():
    for text in TEXTS.values():
        assert not re.search(r"://|/tmp|/home|/opt|localhost", text)


def test_torch_is_the_one_the_course_was_measured_with():
    assert PINS["torch"] == "2.13.0"
    assert not [name for name in PINS if CUDA.fullmatch(name)]


def test_who_reads_a_notebook_builds_no_parser_first():
    """As rfc3987-syntax does when it is imported, for a second. jsonschema imports it
    wherever it is there, nbformat jsonschema, and JupyterLab and nbval both."""
    assert PINS.keys().isdisjoint({"rfc3987-syntax", "lark"})


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_pins_lie_in_the_ranges_of_the_project(wanted):
    assert PINS[canonicalize_name(wanted.name)] in wanted.specifier


@pytest.mark.parametrize("name", MORE)
def test_what_one_purpose_needs_is_pinned_apart(name):
    """`make venv` installs nothing of it."""
    wanted = {canonicalize_name(Requirement(text).name) for text in EXTRAS[MORE[name]]}
    assert wanted <= set(pins(name))


def test_the_wheel_alone_needs_little():
    """launch, %%px, check and concat; who wants more names an extra."""
    names = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert names == {"cloudpickle", "ipykernel", "ipyparallel", "psutil", "torch"}
    assert set(PROJECT["optional-dependencies"]) == {"course", "test", "book"}


def test_ranges_are_ranges():
    """Each names its lowest version and none is a pin, or the two files could drift."""
    for wanted in WANTED:
        operators = {part.operator for part in wanted.specifier}
        assert ">=" in operators and "==" not in operators, wanted


def test_everything_a_pinned_package_needs_is_pinned():
    """Read from what is installed here; what this platform does not need is free."""
    wrong = []
    for name in installed():
        for need in filter(_applies, map(Requirement, requires(name) or [])):
            key = canonicalize_name(need.name)
            if key not in PINS:
                free = CUDA.fullmatch(key)
                wrong += [] if free else [f"{name} needs {need}: not pinned"]
            elif not need.specifier.contains(PINS[key], prereleases=True):
                wrong.append(f"{name} needs {need}: pinned to {PINS[key]}")
    assert not wrong


def _applies(need: Requirement) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": ""})


def test_the_pinned_versions_are_those_installed():
    """What the tests ran with is what a learner gets."""
    here = {name: there.split("+")[0] for name, there in installed().items()}
    assert here == {name: PINS[name] for name in here}
    assert len(here) > 100, "run the tests in the environment of requirements.txt"


def test_conda_names_python_torch_pip_and_the_pins_only():
    """Conda brings Python and the CPU build of the same torch; pip the other pins."""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert set(conda) == {"name", "channels", "dependencies"}
    assert conda["channels"] == ["conda-forge"]
    python, pip, torch, packages = conda["dependencies"]
    assert pip == "pip"
    assert torch == f"pytorch-cpu={PINS['torch']}"
    assert packages == {"pip": ["-r requirements.txt", "-e ."]}
    assert python == f"python{PROJECT['requires-python']}"


def test_the_least_python_is_named_once():
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(">=3.11")
    assert "(3, 11)" in (ROOT / "Makefile").read_text()
