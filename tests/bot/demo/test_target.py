"""The recorded repository is real: its commits are equal at every build, its slowdown and failures happen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bot.config import parse
from bot.demo.target import TargetRepository, World, build_target
from bot.demo.target.build import git
from bot.demo.target.files import layer

WAN_TESTS = "tests/diffusion/distributed/test_wan_vae_fastpath_install.py"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TargetRepository:
    return build_target(tmp_path_factory.mktemp("target"))


def checkout(target: TargetRepository, sha: str, folder: Path) -> Path:
    """Return `folder` with the files of one commit."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", sha], cwd=target.path, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def run_tests(folder: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    """Run the repository's own tests as its CI does."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-rf"]
    return subprocess.run([*command, *paths], cwd=folder, capture_output=True, text=True, check=False)


def test_every_build_has_the_same_commits_whatever_the_user_configured(
    target: TargetRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = Someone\n[core]\nautocrlf = true\n[init]\ndefaultBranch = trunk\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    again = build_target(tmp_path / "again")
    assert again.shas == target.shas
    assert again.history == target.history
    assert git(again.path, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(again.path, "fsck", "--strict", "--no-dangling") == ""


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(FileExistsError):
        build_target(tmp_path)


def test_the_branches_stand_where_the_story_says(target: TargetRepository) -> None:
    def base(one: str, other: str) -> str:
        return git(target.path, "merge-base", one, other).strip()

    assert base("main", target.culprit_branch) == target.parent
    assert base("main", target.fix_branch) == target.main
    assert git(target.path, "rev-parse", f"{target.culprit}^").strip() == target.parent
    assert git(target.path, "rev-parse", target.fix_branch).strip() == target.fix_head
    assert git(target.path, "rev-parse", f"{target.fix_next}^").strip() == target.fix_head


def test_a_bisect_has_sixteen_commits_and_more_to_search(target: TargetRepository) -> None:
    place = target.history.index(target.culprit)
    assert len(target.history) - 1 >= 16
    assert place >= 5
    assert len(target.history) - place >= 5


def test_the_two_pull_requests_touch_what_they_say(target: TargetRepository) -> None:
    def changed(base: str, head: str) -> set[str]:
        return set(git(target.path, "diff", "--name-only", f"{base}...{head}").split())

    transformer = "omni_lite/diffusion/models/qwen_image/qwen_image_transformer.py"
    test = "tests/diffusion/models/qwen_image/test_qwen_image_fused_qk_norm_rope.py"
    assert changed(target.parent, target.culprit_head) == {transformer, test}
    assert changed(target.main, target.fix_head) == {transformer, test, "docs/configuration/environment.md"}


def test_the_base_configures_the_cases(target: TargetRepository) -> None:
    text = git(target.path, "show", f"{target.parent}:.github/prgate.toml")
    config = parse(text)
    assert [case.name for case in config.perf.cases] == ["512x512_steps20", "1024x1024_steps2"]
    assert config.ci.required == ("buildkite/omni-lite",)


def test_main_fails_the_six_tests_and_did_not_before(target: TargetRepository, tmp_path: Path) -> None:
    before = run_tests(checkout(target, target.culprit, tmp_path / "before"))
    assert before.returncode == 0, before.stdout[-2000:]
    now = run_tests(checkout(target, target.fix_head, tmp_path / "now"))
    failed = [line for line in now.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 6
    assert all(line.startswith(f"FAILED {WAN_TESTS}") for line in failed)
    for exception in ("KeyError: 'WanRMS_norm'", "cannot import name 'RMSNormVAE'", "AssertionError"):
        assert exception in now.stdout
    fixed_tests = run_tests(tmp_path / "now", "tests/diffusion/models")
    assert fixed_tests.returncode == 0


class Session:
    """One warm benchmark process of one commit."""

    def __init__(self, folder: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.attention_block",
            "--case",
            "256x256_steps20",
            "--session",
        ]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.answer() == {"ready": True}

    def answer(self) -> dict[str, object]:
        """Return the next line as JSON."""
        assert self.process.stdout is not None
        value: dict[str, object] = json.loads(self.process.stdout.readline())
        return value

    def run(self) -> dict[str, object]:
        """Take one run."""
        assert self.process.stdin is not None
        self.process.stdin.write('{"run": 1}\n')
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """End the process by closing its input."""
        self.process.communicate()
        assert self.process.returncode == 0


def test_the_culprit_is_at_least_twice_as_slow_and_the_fix_takes_the_eager_route(
    target: TargetRepository, tmp_path: Path
) -> None:
    """Best of interleaved runs, so that other work on this machine hardly counts."""
    names = {"parent": target.parent, "culprit": target.culprit_head, "fix": target.fix_head}
    sessions = {name: Session(checkout(target, sha, tmp_path / name)) for name, sha in names.items()}
    results = {name: [session.run() for session in [sessions[name]] * 4] for name in names}
    for session in sessions.values():
        session.close()
    best = {name: min(min(map(float, r["latencies_s"])) for r in runs) for name, runs in results.items()}  # type: ignore[call-overload]
    assert best["culprit"] >= 2 * best["parent"]
    assert best["fix"] < 0.7 * best["culprit"]
    paths = {name: runs[0]["path_log"] for name, runs in results.items()}
    assert paths == {"parent": {"eager": 100}, "culprit": {"fused": 100}, "fix": {"eager": 100}}
    works = [runs[0]["workload"] for runs in results.values()]
    assert works[0] == works[1] == works[2]
    hashes = {name: runs[0]["output_hash"] for name, runs in results.items()}
    assert hashes["parent"] == hashes["fix"]


def test_other_worlds_change_what_they_name_only(target: TargetRepository, tmp_path: Path) -> None:
    gated = build_target(tmp_path / "gated", World(gate_in_culprit=True))
    assert gated.main == target.main
    assert gated.culprit_head != target.culprit_head
    transformer = "omni_lite/diffusion/models/qwen_image/qwen_image_transformer.py"
    show = git(gated.path, "show", f"{gated.culprit_head}:{transformer}")
    assert show == layer("fix")[transformer]

    ungated = build_target(tmp_path / "ungated", World(gate_in_fix=False))
    assert ungated.main == target.main
    assert "min_tokens" not in git(ungated.path, "show", f"{ungated.fix_head}:{transformer}")

    handed = build_target(tmp_path / "handed", World(integration_owner="@owner-07"))
    page = "docs/design/module/diffusion/diffusion_model_integration.md"
    assert '"@owner-07"' in git(handed.path, "show", f"{handed.main}:{page}")
    assert handed.parent == target.parent


def test_where_main_never_broke_the_six_tests_pass(tmp_path: Path) -> None:
    green = build_target(tmp_path / "green", World(main_green=True))
    done = run_tests(checkout(green, green.fix_head, tmp_path / "head"), WAN_TESTS)
    assert done.returncode == 0, done.stdout[-2000:]
