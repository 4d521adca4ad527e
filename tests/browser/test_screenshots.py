"""The documents' pictures, taken from the embedded world on demand: `make screenshots`."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bot.demo.world import EmbeddedWorld
from tests.browser.conftest import MAINTAINER, Open

FOLDER = Path(__file__).parents[2] / "deploy/docs/screenshots"
LARGEST_BYTES = 100_000
WINDOW = {"width": 1200, "height": 760}
COLOURS = 96
wanted = pytest.mark.skipif(
    "PRGATE_SCREENSHOTS" not in os.environ, reason="taken by `make screenshots` alone"
)


@wanted
def test_pictures_of_the_pages(open_window: Open, world: EmbeddedWorld, maintainer: dict[str, Any]) -> None:
    repo, pull = world.recording.repository, world.recording.fix.number
    world.github.hub.comment(pull, MAINTAINER, "@prgate bench")
    world.settle(300)
    visit = open_window(world.address.service, viewport=WINDOW)
    picture(visit, "queue", "/")
    picture(visit, "pull-request", f"/pr/{repo}/{pull}")
    visit.page.locator("section.failure").first.evaluate("one => one.closest('li').scrollIntoView()")
    save(visit, "verdict")
    picture(visit, "red-board", "/red")
    signed_in = open_window(world.address.service, viewport=WINDOW, storage_state=maintainer)
    picture(signed_in, "change", f"/pr/{repo}/{pull}/change")
    visit.go("/perf")
    visit.page.locator("main a[href*='/perf/series/']").first.click()
    visit.page.wait_for_load_state()
    save(visit, "series")


def picture(visit: Any, name: str, path: str) -> None:
    visit.go(path)
    save(visit, name)


def save(visit: Any, name: str) -> None:
    """Write what stands in the window, in few colours."""
    FOLDER.mkdir(exist_ok=True)
    taken = Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB")
    file = FOLDER / f"{name}.png"
    taken.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    assert file.stat().st_size < LARGEST_BYTES, f"{file.name} is too large"


def test_the_pictures_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in FOLDER.glob("*.png")}
    assert sizes, "run `make screenshots`"
    assert {name for name, size in sizes.items() if size >= LARGEST_BYTES} == set()
