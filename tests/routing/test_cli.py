"""The commands, as scripts drive them: one JSON document, exit codes, one clear line for bad input."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.routing.world import CODEOWNERS, PAGES

PROGRAM = [sys.executable, "-c", "from bot.cli import main; main()"]


def prgate(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *arguments], input=given, capture_output=True, timeout=60, check=False)


def answer(*arguments: str, given: bytes = b"") -> Any:
    finished = prgate(*arguments, given=given)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return json.loads(finished.stdout)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with CODEOWNERS, module pages and a few files."""
    for path, text in {
        **PAGES,
        ".github/CODEOWNERS": CODEOWNERS,
        "lib/models/a.py": "",
        "README.md": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def request(tree: Path, **pr: Any) -> dict[str, Any]:
    files = [
        {
            "path": "lib/models/a.py",
            "previous_path": None,
            "status": "modified",
            "additions": 9,
            "deletions": 2,
        }
    ]
    return {"root": str(tree), "pr": {"number": 1, "author": "author", "changed_files": files, **pr}}


def test_owners_says_state_line_errors_and_warnings(tree: Path) -> None:
    text = b"\xef\xbb\xbf* @all # \xff\r\n/src/a/ @a\r\n*.py team\r\n/src/ @src\r\n/src/free/\r\n"
    found = answer("owners", "--codeowners", "-", "README", "./src/x", "src/free/y", "--json", given=text)
    assert found["owners"] == [
        {"path": "README", "state": "owned", "owners": ["@all"], "line": 1},
        {"path": "src/x", "state": "owned", "owners": ["@src"], "line": 4},
        {"path": "src/free/y", "state": "cleared", "owners": [], "line": 5},
    ]
    (error,) = found["errors"]
    assert (error["line"], error["kind"]) == (3, "invalid_owner")
    (warning,) = found["warnings"]
    assert (warning["line"], warning["kind"], warning["by_line"]) == (2, "shadowed", 4)


def test_owners_reads_paths_from_a_file_or_stdin(tree: Path) -> None:
    rules = str(tree / ".github" / "CODEOWNERS")
    by_line = answer(
        "owners", "--codeowners", rules, "--paths", "-", "--json", given=b"ci/a\r\nmy file.proto\n\n"
    )
    assert [one["path"] for one in by_line["owners"]] == ["ci/a", "my file.proto"]
    by_nul = answer("owners", "--codeowners", rules, "--paths", "-", "--json", given=b"a\nb.proto\0c\0")
    assert [(one["path"], one["owners"]) for one in by_nul["owners"]] == [
        ("a\nb.proto", ["@wire"]),
        ("c", ["@star"]),
    ]


def test_owners_for_people(tree: Path) -> None:
    finished = prgate(
        "owners", "--codeowners", str(tree / ".github" / "CODEOWNERS"), "ci/a", "docs/generated/x"
    )
    assert finished.stdout.decode().splitlines() == [
        "ci/a: @ci-lead @ann (line 2)",
        "docs/generated/x: nobody, on purpose (line 8)",
    ]


def test_owners_reports_on_a_tree(tree: Path) -> None:
    found = answer("owners", "--report", "--root", str(tree), "--json")
    assert found["coverage"]["files"] == len(PAGES) + 3
    assert "docs/design/module/errors.md" in found["bus_factor_one"]
    assert {"people", "drift", "modules", "unused_rules", "errors", "warnings"} <= set(found)
    text = prgate("owners", "--report", "--root", str(tree)).stdout.decode()
    assert "bus factor 1: docs/design/module/errors.md" in text


def test_route_answers_as_agreed(tree: Path) -> None:
    found = answer("route", "-", "--json", given=json.dumps(request(tree)).encode())
    assert set(found) == {
        "modules",
        "also_touches",
        "owners",
        "ask",
        "not_asked_because",
        "drift",
        "unowned_files",
    }
    assert found["modules"] == [
        {
            "page": "docs/design/module/models.md",
            "weight": 1.0,
            "files": [{"path": "lib/models/a.py", "by": "primary"}],
        }
    ]
    assert found["owners"][0] == {
        "login": "ann",
        "reasons": [
            "module of the changed files: docs/design/module/models.md (1 file)",
            "CODEOWNERS line 5",
        ],
    }
    assert found["drift"][0]["codeowners"] == ["@ann", "@bob"]


def test_route_reads_people_and_the_trees_configuration(tree: Path) -> None:
    (tree / ".github" / "prgate.toml").write_text(
        'mode = "shadow"\n[routing]\nask = 1\nnever_ask = ["ann"]\n'
    )
    asked = {**request(tree), "people": {"bob": {"busy": True}}}
    assert answer("route", "-", "--json", given=json.dumps(asked).encode())["ask"][0] in {"cleo", "dan"}


def test_a_root_may_be_relative_to_the_request(tree: Path) -> None:
    (tree / "request.json").write_text(json.dumps({**request(tree), "root": "."}))
    found = answer("route", str(tree / "request.json"), "--json")
    assert found["ask"]


def test_priority_answers_as_agreed(tree: Path) -> None:
    issues = [{"number": 7780, "title": "", "labels": ["high priority"]}]
    asked = request(tree, linked_issues=issues, labels=None, ci="green", created_at="2026-09-01T00:00:00Z")
    found = answer(
        "priority", "-", "--json", "--now", "2026-09-21T00:00:00Z", given=json.dumps(asked).encode()
    )
    assert found["level"] == "high"
    assert found["score"] == sum(reason["points"] for reason in found["reasons"])
    assert {"signal": "linked issue #7780 is high priority", "points": 30} in found["reasons"]
    assert {"signal": "open for 20 days", "points": 5} in found["reasons"]


def test_both_commands_speak_to_people_too(tree: Path) -> None:
    given = json.dumps(request(tree)).encode()
    assert b"ask: " in prgate("route", "-", given=given).stdout
    assert b"priority: medium" in prgate("priority", "-", given=given).stdout


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        (["owners", "a.py", "--json"], b"", "--codeowners FILE is needed"),
        (["owners", "--codeowners", "/does/not/exist", "a"], b"", "/does/not/exist: cannot be read"),
        (["owners", "--codeowners", "-", "--paths", "-"], b"", "stdin can be read once"),
        (["owners", "--report"], b"", "--root DIR"),
        (["route", "/does/not/exist", "--json"], b"", "cannot be read"),
        (["route", "-"], b"{", "not JSON"),
        (["route", "-"], b"[" * 100_000, "not JSON"),
        (["route", "-"], b"[]", "a request is a JSON object"),
        (["route", "-"], b'{"root": "."}', "pr: field required"),
        (
            ["route", "-"],
            b'{"root": ".", "pr": {"number": 1, "author": "a", "changed_files": [{}]}}',
            "changed_files.0.path",
        ),
        (
            ["route", "-"],
            b'{"root": "/no", "pr": {"number": 1, "author": "a", "changed_files": []}}',
            "is not a folder",
        ),
        (
            ["priority", "-"],
            b'{"root": "\\u0000", "pr": {"number": 1, "author": "a", "changed_files": []}}',
            "is not a folder",
        ),
        (
            ["priority", "-", "--now", "noon"],
            b'{"root": ".", "pr": {"number": 1, "author": "a", "changed_files": []}}',
            "noon",
        ),
        (
            ["route", "-", "--config", "-"],
            b'{"root": ".", "pr": {"number": 1, "author": "a", "changed_files": []}}',
            "stdin can be read once",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments: list[str], given: bytes, says: str) -> None:
    finished = prgate(*arguments, given=given)
    assert finished.returncode == 2
    assert finished.stdout == b""
    (line,) = finished.stderr.decode().splitlines()
    assert says in line


def test_a_misspelt_key_of_the_configuration_is_named(tree: Path) -> None:
    (tree / ".github" / "prgate.toml").write_text("[routing]\nasks = 1\n")
    finished = prgate("route", "-", given=json.dumps(request(tree)).encode())
    assert finished.returncode == 2
    assert b"routing.asks" in finished.stderr


@pytest.mark.parametrize("text", ["[routing", "a = " + "9" * 5_000, "a = " + "[" * 20_000])
def test_a_configuration_that_cannot_be_read_is_refused_in_one_line(tree: Path, text: str) -> None:
    (tree / ".github" / "prgate.toml").write_text(text)
    finished = prgate("route", "-", given=json.dumps(request(tree)).encode())
    assert (finished.returncode, finished.stdout) == (2, b"")
    assert len(finished.stderr.splitlines()) == 1
