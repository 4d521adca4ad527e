"""The documents say what the code does."""

import re
from pathlib import Path

import pytest

from bot.config import parse
from bot.reference import reference

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_the_reference_is_what_the_code_says() -> None:
    page = (ROOT / "deploy/docs/reference.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        target
        for page in PAGES
        for target in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))
    }
    assert named - set(re.findall(r"(?m)^([a-z-]+):", makefile)) == set()


def test_every_setting_that_is_named_exists() -> None:
    known = set(
        re.findall(r"PRGATE_[A-Z_]+", (ROOT / "deploy/docs/reference.md").read_text(encoding="utf-8"))
    )
    lane = (ROOT / "perf_runner/settings.py").read_text(encoding="utf-8")
    measured = [*(ROOT / "kernels").rglob("*.py"), *(ROOT / "perf_runner/targets").rglob("*.py")]
    kernels = "".join(path.read_text(encoding="utf-8") for path in measured)
    known |= set(re.findall(r"PRGATE_[A-Z_]+", lane + kernels))
    named = {
        name for page in PAGES for name in re.findall(r"PRGATE_[A-Z_]+", page.read_text(encoding="utf-8"))
    }
    assert named - known == set()


def test_every_example_configuration_is_valid() -> None:
    for page in PAGES:
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            parse(block)
    for file in (ROOT / "deploy").rglob("*.toml"):
        parse(file.read_text(encoding="utf-8"))
