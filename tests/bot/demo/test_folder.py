"""The folder of the embedded world: whose it is, and who may remove what."""

import json
from pathlib import Path

import pytest

from bot.demo.folder import SHAPE, claim_folder, shape


def world_in(folder: Path) -> Path:
    """Make what a world leaves behind, as far as the folder's rules look at it."""
    with claim_folder(folder, fresh=False):
        (folder / "keys.json").write_text("{}")
        (folder / "data").mkdir()
        (folder / "data" / "prgate.db").write_text("rows")
    return folder


def test_a_world_is_kept_for_the_next_run(tmp_path: Path) -> None:
    folder = world_in(tmp_path / "demo")
    with claim_folder(folder, fresh=False):
        assert (folder / "data" / "prgate.db").read_text() == "rows"


def test_fresh_forgets_a_world(tmp_path: Path) -> None:
    folder = world_in(tmp_path / "demo")
    with claim_folder(folder, fresh=True):
        assert {entry.name for entry in folder.iterdir()} == {"lock", SHAPE}


@pytest.mark.parametrize("written", [json.dumps({"shape": "older"}), "", "[1]", None])
def test_a_world_of_another_version_is_forgotten(tmp_path: Path, written: str | None) -> None:
    folder = world_in(tmp_path / "demo")
    (folder / SHAPE).unlink()
    if written is not None:
        (folder / SHAPE).write_text(written)
    with claim_folder(folder, fresh=False):
        assert not (folder / "data").exists()
        assert json.loads((folder / SHAPE).read_text()) == {"shape": shape()}


@pytest.mark.parametrize("fresh", [True, False])
def test_a_folder_that_is_no_world_is_left_alone(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RuntimeError, match="holds other files"):
        claim_folder(tmp_path, fresh=fresh)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("fresh", [True, False])
def test_two_worlds_never_share_a_folder(tmp_path: Path, fresh: bool) -> None:
    folder = world_in(tmp_path / "demo")
    with claim_folder(folder, fresh=False):
        with pytest.raises(RuntimeError, match="another demo runs"):
            claim_folder(folder, fresh=fresh)
        assert (folder / "data" / "prgate.db").exists()
    claim_folder(folder, fresh=False).close()
