"""What a maintainer's tools see: headers on every answer, metrics with their documented names, a command line
that behaves in a pipe."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bot import metrics
from tests.bot.dashboard_access.conftest import NAME, Site

ROOT = Path(__file__).parents[3]
METRIC = re.compile(r"\bprgate_[a-z_]+")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
DOCUMENTED = re.compile(r"^\| `(prgate_[a-z_]+)", re.MULTILINE)


def series(text: str) -> set[str]:
    """Return the names of all metrics in an exposition."""
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    "path",
    ["/", "/queue.json", "/help", "/nothing", "/pr/omni/open/1", "/static/site.css", "/healthz", "/metrics"],
)
def test_every_answer_is_guarded(site: Site, path: str) -> None:
    headers = site.browser().get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] in ("same-origin", "no-referrer")
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_what_a_person_sees_is_kept_by_no_cache(site: Site) -> None:
    known = site.browser("reader-1")
    for path in ("/", f"/pr/{NAME}/1", "/queue.json"):
        assert known.get(path).headers["cache-control"] == "private, no-store"
        assert "Cookie" in known.get(path).headers["vary"]
        assert "Cookie" in site.browser().get(path).headers["vary"]
    assert "no-store" not in known.get("/static/site.css").headers["cache-control"]


def test_no_page_brings_style_or_script_of_its_own(site: Site) -> None:
    for path in ("/", "/pr/omni/open/1", "/red", "/perf", "/help"):
        text = site.browser().get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text), path


def test_the_documented_metrics_are_the_ones_that_are_served(site: Site) -> None:
    served = series(site.browser().get("/metrics").text)
    own = {name for name in served if name.startswith("prgate_") and not name.endswith("_created")}
    assert set(DOCUMENTED.findall(metrics.__doc__ or "")) == own


def test_the_grafana_dashboard_asks_for_metrics_that_exist(site: Site) -> None:
    served = series(site.browser().get("/metrics").text)
    board = json.loads((ROOT / "deploy/grafana/prgate.json").read_text())
    asked = {
        SUFFIX.sub("", name)
        for panel in board["panels"]
        for target in panel["targets"]
        for name in METRIC.findall(target["expr"])
    }
    assert asked - served == set()
    assert {name for name in served if name.startswith("prgate_") and not name.endswith("_created")} == asked
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "bot", *arguments],
        env={**kept, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_shell_completes_commands() -> None:
    shown = command(_PRGATE_COMPLETE="complete_bash", COMP_WORDS="prgate ser", COMP_CWORD="1")
    assert shown.stdout.split() == ["serve"]
    assert "_PRGATE_COMPLETE" in command(_PRGATE_COMPLETE="source_bash").stdout


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {}])
def test_output_in_a_pipe_has_no_colour(variables: dict[str, str]) -> None:
    for arguments in (("--help",), ("no-such-command",)):
        ended = command(*arguments, **variables)
        assert "\x1b" not in ended.stdout + ended.stderr


def test_an_editor_finds_the_schema_of_the_example() -> None:
    first = (ROOT / "deploy/prgate.example.toml").read_text().splitlines()[0]
    name = first.removeprefix("#:schema ")
    assert name != first
    json.loads((ROOT / "deploy" / name).read_text())
