"""The house stands as ARCHITECTURE.md draws it."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"bot", "perf_runner", "prgate_kernels", "routing"}
HEAVY = ("torch", "triton", "diffusers")
# The only places that may import the heavy three when they are loaded.
HEAVY_ALLOWED = ("perf_runner.targets.", "perf_runner.bench.", "prgate_kernels.", "bot.demo.target.")


def test_the_folder_kernels_is_not_a_package() -> None:
    """A package named `kernels` would shadow, and in a wheel overwrite, the one of that name on PyPI."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_the_wheel_holds_the_four_packages_and_nothing_else(tmp_path: Path) -> None:
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # a leftover would be packed
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    build = ["--config-settings=--build-option=--quiet", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run([*command, *build], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == PACKAGES
    assert tracked() - set(names) == set()


def tracked() -> set[str]:
    """Return every committed file of the four packages as it must lie in the wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "bot", "perf_runner", "routing", "kernels"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.removeprefix("kernels/") for name in listed.stdout.split("\0") if name}


def modules() -> list[str]:
    """Return every importable module of the four packages but those that may load torch."""
    found = []
    for package in ("bot", "perf_runner", "routing", "kernels/prgate_kernels"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            parts = parts[1:] if parts[0] == "kernels" else parts
            name = ".".join(parts).removesuffix(".__init__")
            if all(part.isidentifier() for part in parts) and not is_data(path):
                found.append(name)
    return [
        name for name in found if not f"{name}.".startswith(HEAVY_ALLOWED) and not name.endswith("__main__")
    ]


def is_data(path: Path) -> bool:
    """Say whether a Python file is data (a migration, or a file of the recorded repository)."""
    return not (path.parent / "__init__.py").exists()


@pytest.mark.parametrize("blocked", [HEAVY])
def test_the_service_imports_where_torch_is_not_installed(blocked: tuple[str, ...]) -> None:
    program = f"""
import importlib, sys
for name in {blocked!r}:
    sys.modules[name] = None
for name in {modules()!r}:
    importlib.import_module(name)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]


def test_every_python_file_lies_in_a_package_or_is_meant_as_data() -> None:
    strays = [path for path in ROOT.glob("*.py") if path.name != "conftest.py"]
    assert strays == []
