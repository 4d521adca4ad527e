"""`.github/prgate.toml`: what it may say, and how its faults are told."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.actions import Mode
from bot.config import ConfigError, RepoConfig, json_schema, parse

ROOT = Path(__file__).parents[3]


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    return [str(problem) for problem in refused.value.problems]


def test_an_empty_file_means_the_defaults() -> None:
    assert parse("") == RepoConfig()
    assert parse("\ufeffmode = 'gate'").mode is Mode.GATE


def test_each_fault_names_line_key_and_what_was_meant() -> None:
    text = """
mode = "loud"
handels = ["a"]

[perf]
wen = "paths"
[[perf.cases]]
name = "a"
requests = 0
[[perf.cases]]
name = "b"
comand = ["x"]

[ci.buildkite]
organization = "x"
pipelines = []
"""
    assert faults(text) == [
        "line 2: `mode`: input should be 'shadow', 'comment' or 'gate'",
        "line 3: `handels`: no such key (did you mean `handles`?)",
        "line 6: `perf.wen`: no such key (did you mean `when`?)",
        "line 9: `perf.cases.0.requests`: input should be greater than or equal to 1",
        "line 12: `perf.cases.1.comand`: no such key (did you mean `command`?)",
        "line 16: `ci.buildkite.pipelines`: list should have at least 1 item",
    ]


def test_a_fault_between_sections_is_told_at_its_table() -> None:
    text = '[perf]\nwhen = "paths"\n\n[[perf.paths]]\nglob = "a/**"\ncases = ["gone"]\n'
    assert faults(text) == ["line 1: `perf`: a path rule names the case 'gone', which is not among the cases"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mode =\n", "line 1: not valid TOML: "),
        ("a = " + "[" * 20_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "a number of too many digits"),
        ("mode = 'gate'\n" + ".".join(["a"] * 20_000) + " = 1", "more than 300 dots in one line"),
        ("x" * 300_000, "larger than 256,000 characters"),
        ("ci = 3", "line 1: `ci`: "),
        ('handles = ["not a login"]', "line 1: `handles.0`: "),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_in_one_line(text: str, says: str) -> None:
    (fault,) = faults(text)
    assert says in fault
    assert "\n" not in fault


@settings(deadline=None)
@given(st.text(alphabet="abe=[]\"'{}.,#\n 01mode", max_size=200))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    with suppress(ConfigError):
        parse(text)


def test_the_example_is_valid_and_names_every_section() -> None:
    text = (ROOT / "deploy" / "prgate.example.toml").read_text()
    parse(text)
    for name in RepoConfig.model_fields:
        assert f"[{name}]" in text or f"\n{name} = " in text, name


def test_the_schema_for_editors_is_the_one_of_the_code() -> None:
    stored = json.loads((ROOT / "deploy" / "prgate.schema.json").read_text())
    assert stored == json_schema(), "run: prgate check-config --schema > deploy/prgate.schema.json"


def check(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from bot.cli import main; main()", "check-config", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_the_command_tells_good_from_bad_and_unreadable(tmp_path: Path) -> None:
    good = tmp_path / "prgate.toml"
    good.write_bytes(b"\xef\xbb\xbfmode = 'comment'\n")
    assert check(str(good)).returncode == 0
    bad = check("-", "--json", stdin="mood = 1\n")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["problems"] == [
        {"line": 1, "key": "mood", "says": "no such key", "suggestion": "mode"}
    ]
    gone = check(str(tmp_path / "gone.toml"))
    assert gone.returncode == 2
    assert gone.stdout == ""
    assert len(gone.stderr.strip().split("\n")) == 1
