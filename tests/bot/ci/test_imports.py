"""The import graph of a base checkout says what a failing test can reach, and never decides."""

from pathlib import Path

import pytest

from bot.ci.imports import Reach, read_reach
from bot.ci.verdict import judge
from tests.bot.ci.world import TEST, base, file, green, read, red, world

FILES = {
    "engine/__init__.py": "",
    "engine/cache.py": "from engine import pool\n",
    "engine/pool.py": "import os\n",
    "engine/audio.py": "from engine import pool\n",
    "engine/plugins.py": "from . import audio\n",
    "tests/conftest.py": "import engine.plugins\n",
    "tests/unit/test_cache.py": "def test_x():\n    from engine.cache import rows\n",
    "lonely/test_pool.py": "import engine.pool\n",
    "lonely/test_nothing.py": "import os\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_what_a_test_reaches_through_others_and_through_its_conftest(checkout: Path) -> None:
    reach = read_reach(
        checkout, ["engine/pool.py", "engine/audio.py"], ["tests/unit/test_cache.py", "lonely/test_pool.py"]
    )
    assert reach == Reach({
        "tests/unit/test_cache.py": ("engine/pool.py", "engine/audio.py"),
        "lonely/test_pool.py": ("engine/pool.py",),
    })  # fmt: skip


def test_a_test_that_reaches_none_of_them_is_told_so(checkout: Path) -> None:
    assert read_reach(checkout, ["engine/audio.py"], ["lonely/test_pool.py"]) == Reach(
        {"lonely/test_pool.py": ()}
    )


def test_nothing_is_run_and_nothing_is_left_behind(checkout: Path) -> None:
    (checkout / "engine/__init__.py").write_text("raise SystemExit('ran')\n")
    before = sorted(checkout.rglob("*"))
    assert read_reach(checkout, ["engine/pool.py"], ["lonely/test_pool.py"]) is not None
    assert sorted(checkout.rglob("*")) == before


def test_without_a_graph_there_is_no_evidence(checkout: Path, tmp_path: Path) -> None:
    ask = ["lonely/test_pool.py"]
    assert read_reach(checkout, ["engine/pool.py", "setup.cfg"], ask) is None
    assert read_reach(checkout, [], ask) is None
    assert read_reach(tmp_path / "nowhere", ["engine/pool.py"], ask) is None
    assert read_reach(checkout, ["engine/new.py"], ask) == Reach({})
    assert read_reach(checkout, ["engine/pool.py"], ["lonely/test_nothing.py", "lonely/gone.py"]) == Reach({})
    (checkout / "engine/audio.py").write_text("def broken(:\n")
    assert read_reach(checkout, ["engine/pool.py"], ask) is None


def test_the_graph_explains_and_never_decides() -> None:
    path = TEST.partition("::")[0]
    for runs in ([], [base(green())], [base(red())]):
        snapshot = read(world(red(), files=[file("engine/audio.py")], base_runs=runs))
        plain = judge(snapshot)
        for reach in (Reach({path: ()}), Reach({path: ("engine/audio.py",)})):
            told = judge(snapshot, reach=reach)
            assert [one.verdict for one in told.failures] == [one.verdict for one in plain.failures]
    told = judge(read(world(red(), files=[file("engine/audio.py")])), reach=Reach({path: ()}))
    assert "no_changed_file_reachable" in [one.rule for one in told.failures[0].evidence]
