"""The merge base's import graph, asked of a real repository: kept by commit, and never in the way."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bot.ci.logs import read_job
from bot.ci.reach import CHECKOUTS_KEPT, Question, answer, question
from bot.ci.snapshot import Snapshot
from bot.mirror import Source, refresh
from tests.bot.ci.test_imports import FILES
from tests.bot.ci.world import file, job, plain_log, pytest_log, read, world

FAILING = "lonely/test_pool.py"
ASKED = ("engine/pool.py",)


def commit(work: Path, files: dict[str, str]) -> str:
    """Commit files and return the commit."""
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(work), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(work), *who, "commit", "--quiet", "-m", "c"], check=True)
    asked = ["git", "-C", str(work), "rev-parse", "HEAD"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    work = tmp_path / "origin"
    subprocess.run(["git", "init", "--quiet", "-b", "main", str(work)], check=True)
    return work


def ask(sha: str, tmp_path: Path, origin: Path) -> Any:
    found = answer(Question(sha, ASKED, (FAILING,)), tmp_path / "mirrors", Source(7, f"file://{origin}"))
    return None if found is None else dict(found.by_file)


def test_the_base_is_fetched_alone_and_its_answer_outlives_the_source(tmp_path: Path, origin: Path) -> None:
    sha = commit(origin, {**FILES, "data/large.bin": "x"})
    assert ask(sha, tmp_path, origin) == {FAILING: ASKED}
    tree = tmp_path / "mirrors" / "7-checkouts" / sha / "tree"
    assert {path.suffix for path in tree.rglob("*") if path.is_file()} == {".py"}
    origin.rename(tmp_path / "gone")
    assert ask(sha, tmp_path, origin) == {FAILING: ASKED}


def test_what_the_mirror_has_is_not_fetched_again(tmp_path: Path, origin: Path) -> None:
    sha = commit(origin, FILES)
    refresh(tmp_path / "mirrors", Source(7, f"file://{origin}"))
    origin.rename(tmp_path / "gone")
    assert ask(sha, tmp_path, origin) == {FAILING: ASKED}


def test_a_base_that_is_not_to_be_had_or_does_not_parse_gives_no_evidence(
    tmp_path: Path, origin: Path
) -> None:
    assert ask("0" * 40, tmp_path, origin) is None
    broken = commit(origin, {**FILES, "engine/audio.py": "def broken(:\n"})
    assert ask(broken, tmp_path, origin) is None
    assert ask(commit(origin, {"README.md": "no code"}), tmp_path, origin) is None


def test_a_link_out_of_the_repository_is_not_laid_out(tmp_path: Path, origin: Path) -> None:
    commit(origin, FILES)
    (origin / "engine" / "away.py").symlink_to("/etc/passwd")
    sha = commit(origin, {})
    assert ask(sha, tmp_path, origin) == {FAILING: ASKED}
    assert not list((tmp_path / "mirrors").rglob("away.py"))


def test_only_the_checkouts_that_were_used_last_are_kept(tmp_path: Path, origin: Path) -> None:
    shas = [commit(origin, {**FILES, "engine/new.py": f"N = {n}\n"}) for n in range(CHECKOUTS_KEPT + 2)]
    for sha in shas:
        assert ask(sha, tmp_path, origin) is not None
    kept = {path.name for path in (tmp_path / "mirrors" / "7-checkouts").iterdir()}
    assert kept - {"git"} == set(shas[2:])


def asked_about(*jobs: dict[str, Any], **more: Any) -> Question | None:
    snapshot: Snapshot = read(world(*jobs, **more))
    return question(snapshot, {one.key: read_job(one) for one in snapshot.jobs if one.is_failure})


def test_a_question_needs_failing_tests_and_python_changes_that_are_all_known() -> None:
    failing = job(log=pytest_log(("tests/engine/test_cache.py::test_evicts", ("KeyError", "'a'"))))
    found = asked_about(failing)
    assert found is not None
    assert (found.changed, found.failing) == (("engine/scheduler.py",), ("tests/engine/test_cache.py",))
    assert asked_about(failing, files=[file("setup.cfg")]) is None
    assert asked_about(failing, pr={"changed_files_complete": None}) is None
    assert asked_about(failing, pr={"merge_base_sha": "HEAD"}) is None
    assert asked_about(job(log=plain_log("make: *** [all] Error 2"))) is None
