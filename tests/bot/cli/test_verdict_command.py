"""`prgate verdict` as others drive it: one document, one line for bad input, exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHORT = """=== short test summary info ===
FAILED tests/test_a.py::test_x - KeyError: 'norm'
=== 1 failed, 9 passed in 2s ===
"""
HEAD, BASE = "a" * 40, "b" * 40


def job(conclusion: str, log: str | None = None) -> dict[str, Any]:
    return {"id": conclusion, "name": "unit", "required": True, "conclusion": conclusion, "log": log}


def snapshot(base: str) -> dict[str, Any]:
    """Return a head with one failing test, on a merge base where it failed or passed."""
    run = job("failed", SHORT) if base == "failed" else job("passed", "=== 10 passed in 2s ===\n")
    when = "2026-09-20T10:00:00Z"
    changed = [{"path": "docs/index.md", "status": "modified", "additions": 1, "deletions": 0}]
    return {
        "schema": 1,
        "repo": "org/name",
        "pr": {
            "number": 7,
            "author": "author-1",
            "head_sha": HEAD,
            "head_committed_at": "2026-09-20T12:00:00Z",
            "merge_base_sha": BASE,
            "merge_base_committed_at": when,
            "changed_files": changed,
            "changed_files_complete": True,
        },
        "jobs": [job("failed", SHORT)],
        "base_runs": [
            {"sha": BASE, "branch": "main", "committed_at": when, "is_merge_base": True, "jobs": [run]}
        ],
        "other_prs": [],
        "same_commit_runs": [],
        "known_issues": [],
        "job_history": [],
    }


def prgate(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bot", "verdict", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_a_failure_that_main_has_too_is_unrelated(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text("\ufeff" + json.dumps(snapshot("failed")), encoding="utf-8")
    done = prgate(str(file), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["schema"] == 1
    assert found["overall"] == "unrelated"
    (failure,) = found["failures"]
    assert failure["kind"] == "broken_trunk"
    assert failure["signature"] == {"exception": "KeyError", "message": "'norm'"}


def test_with_main_green_it_is_not() -> None:
    done = prgate("-", "--json", stdin=json.dumps(snapshot("passed")))
    assert done.returncode == 1
    assert json.loads(done.stdout)["overall"] != "unrelated"


def test_a_folder_is_held_against_its_labels(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(snapshot("failed")))
    (tmp_path / "other.json").write_text('{"hello": 1}')
    labels = tmp_path.parent / "labels.json"
    right = {"one": {"verdict": "unrelated", "kind": "broken_trunk", "acceptable": ["unrelated"]}}
    labels.write_text(json.dumps(right))
    done = prgate(str(tmp_path), "--json", "--labels", str(labels))
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(document["verdicts"]) == ["one"]
    assert document["table"]["unrelated_with_right_kind"] == "1 of 1"
    assert "other.json is no snapshot" in done.stderr
    wrong = {"one": {"verdict": "regression", "acceptable": ["regression"]}}
    labels.write_text(json.dumps(wrong))
    assert prgate(str(tmp_path), "--labels", str(labels)).returncode == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": 2, "pr": {}, "jobs": []}', "\x00\xff", "[" * 50_000]
)
def test_bad_input_is_one_line(text: str) -> None:
    done = prgate("-", stdin=text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_one_line() -> None:
    done = prgate("/no/such/file")
    assert done.returncode == 2
    assert "No such file" in done.stderr
