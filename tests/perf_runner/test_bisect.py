"""The search for the first bad commit: pure, in simulated noise, and over a real repository by command."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_runner.bisect import (
    Hunt,
    Side,
    conclusion,
    hunted_effect,
    next_probe,
    probe_margin,
    side_of,
    too_noisy,
)
from perf_runner.bisect_run import BisectRecord, Steps, run, stored
from perf_runner.gate import GateSettings, replay
from perf_runner.models import Arm, BenchmarkCase, Block, CaseResult, Decision, Sample

COMMITS = tuple(f"{n:040x}" for n in range(25))


def solve(commits: tuple[str, ...], first_bad: int, skipped: frozenset[int] = frozenset()) -> Hunt:
    """Return the finished hunt over commits whose sides are known."""
    hunt = Hunt(commits)
    while (sha := next_probe(hunt)) is not None:
        place = commits.index(sha)
        side = Side.SKIP if place in skipped else Side.BAD if place >= first_bad else Side.GOOD
        hunt = hunt.told(sha, side)
    return hunt


@given(st.integers(2, 60), st.data())
def test_every_culprit_is_found_in_logarithmic_probes(count: int, data: st.DataObject) -> None:
    commits = tuple(f"{n:040x}" for n in range(count))
    first_bad = data.draw(st.integers(1, count - 1))
    hunt = solve(commits, first_bad)
    assert conclusion(hunt).culprit == commits[first_bad]
    assert len(hunt.sides) <= math.ceil(math.log2(count))


@given(st.integers(3, 30), st.data())
def test_commits_that_do_not_build_are_passed_over_and_never_blamed_alone(
    count: int, data: st.DataObject
) -> None:
    commits = tuple(f"{n:040x}" for n in range(count))
    first_bad = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.frozensets(st.integers(1, count - 2), max_size=count - 2))
    found = conclusion(solve(commits, first_bad, skipped))
    assert commits[first_bad] in found.candidates
    assert all(commits.index(sha) in skipped for sha in found.candidates[:-1])
    if len(found.candidates) > 1:
        assert found.culprit is None
        assert "could not be measured" in found.says


def test_the_range_must_hold_something() -> None:
    with pytest.raises(ValueError, match="after the good one"):
        Hunt(("a",))
    with pytest.raises(ValueError, match="not between"):
        Hunt(("a", "b")).told("c", Side.GOOD)


def test_a_probe_looks_for_half_of_the_effect() -> None:
    assert math.log1p(probe_margin(0.109)) == pytest.approx(0.5 * math.log1p(0.109))
    assert probe_margin(9.0) == 0.9


def test_noise_that_hides_the_effect_is_refused() -> None:
    assert too_noisy(0.109, 0.01, 10) is None
    assert "forbids" in str(too_noisy(0.05, 0.03, 10))


class Lab:
    """Measures simulated commits: each has a level in logs; runs carry noise."""

    def __init__(
        self, levels: list[float], sd: float, broken: frozenset[int] = frozenset(), seed: int = 1
    ) -> None:
        self.levels, self.sd, self.broken = levels, sd, broken
        self.chance = random.Random(seed)
        self.experiments = 0

    def seconds(self, sha: str) -> tuple[float, float]:
        """Return two runs of a commit."""
        level = self.levels[COMMITS.index(sha)]
        one, other = (math.exp(level + self.chance.gauss(0, self.sd)) for _ in "ab")
        return one, other

    def measure(self, base: str, head: str, margin: float | None) -> CaseResult:
        """Return an experiment of two commits."""
        self.experiments += 1
        arms = (Arm(name="base", sha=base), Arm(name="head", sha=head))
        case = BenchmarkCase(name="case", prior_sd=self.sd)
        if COMMITS.index(head) in self.broken:
            return CaseResult(case=case, arms=arms, error="head: it does not build")
        pairs = [(self.seconds(base), self.seconds(head)) for _ in range(20)]
        told = GateSettings(margin=margin or 0.02, prior_sd=self.sd)
        gate = replay(pairs, told)
        blocks = tuple(
            Block(
                arms={
                    "base": tuple(Sample(seconds=s) for s in b),
                    "head": tuple(Sample(seconds=s) for s in h),
                }
            )
            for b, h in pairs[: len(gate.blocks)]
        )
        return CaseResult(case=case, arms=arms, blocks=blocks, decision=gate.conclude("ended"))


def hunt_in(lab: Lab, record: BisectRecord | None = None) -> tuple[BisectRecord, list[BisectRecord]]:
    """Return the record of a bisect in a lab, and every record that was kept on the way."""
    kept: list[BisectRecord] = []
    record = record or BisectRecord(good=COMMITS[0], bad=COMMITS[-1], case="case")
    return run(COMMITS, record, Steps(lab.measure, kept.append, lambda text: None, 10)), kept


def levels(culprit: int, effect: float, small: float = 0.0) -> list[float]:
    """Return the commits' levels: a jump at `culprit`, and a small one three commits before it."""
    return [
        (math.log1p(effect) if n >= culprit else 0.0) + (math.log1p(small) if n >= culprit - 3 else 0.0)
        for n in range(len(COMMITS))
    ]


def test_the_culprit_is_named_with_its_interval_in_noise() -> None:
    for seed in range(20):
        culprit = 1 + seed % (len(COMMITS) - 1)
        record, _ = hunt_in(Lab(levels(culprit, 0.109), 0.01, seed=seed))
        assert record.culprit == COMMITS[culprit], record.says
        assert record.culprit_change is not None
        assert record.culprit_change.low_pct is not None
        assert 0 < record.culprit_change.low_pct < 10.9


def test_a_small_change_before_it_is_not_mistaken_for_the_culprit() -> None:
    record, _ = hunt_in(Lab(levels(12, 0.109, small=0.01), 0.005))
    assert record.culprit == COMMITS[12]


def test_broken_commits_around_the_culprit_leave_candidates() -> None:
    record, _ = hunt_in(Lab(levels(12, 0.109), 0.01, broken=frozenset({11, 12})))
    assert record.culprit is None
    assert set(record.candidates) == {COMMITS[11], COMMITS[12], COMMITS[13]}
    assert record.skipped == (COMMITS[11], COMMITS[12])


def test_a_bisect_goes_on_from_what_was_kept(tmp_path: Path) -> None:
    whole, kept = hunt_in(Lab(levels(7, 0.109), 0.01))
    half = kept[len(kept) // 2]
    file = tmp_path / "state.json"
    file.write_text(half.model_dump_json())
    lab = Lab(levels(7, 0.109), 0.01, seed=5)
    again, _ = hunt_in(lab, stored(file, BisectRecord(good=COMMITS[0], bad=COMMITS[-1], case="case")))
    assert again.culprit == whole.culprit == COMMITS[7]
    assert again.probes[: len(half.probes)] == half.probes
    assert lab.experiments < len(whole.probes) + 2
    with pytest.raises(ValueError, match="another bisect"):
        stored(file, BisectRecord(good=COMMITS[1], bad=COMMITS[-1], case="case"))
    file.write_text("{}")
    with pytest.raises(ValueError, match="no record"):
        stored(file, half)


def test_without_a_slowdown_there_is_nothing_to_hunt() -> None:
    with pytest.raises(ValueError, match="no regression to hunt"):
        hunt_in(Lab([0.0] * len(COMMITS), 0.01))


def test_noise_ends_the_search_before_it_names_somebody() -> None:
    record, _ = hunt_in(Lab(levels(9, 0.12), 0.045, seed=3))
    assert record.culprit is None
    assert record.refused is not None
    assert record.probes == ()


def test_sides_follow_decisions() -> None:
    def decision(outcome: str) -> Decision:
        numbers = {"change_pct": 10.0, "low_pct": 5.0, "high_pct": 15.0, "margin_pct": 2.0, "alpha": 0.03}
        counts = {"blocks_used": 2, "blocks_vetoed": 0, "runs_used": 8, "improved": False}
        return Decision.model_validate({"decision": outcome, "why": "", **numbers, **counts})

    assert side_of(decision("regression")) is Side.BAD
    assert side_of(decision("no_regression")) is Side.GOOD
    assert side_of(decision("inconclusive")) is Side.OPEN
    assert hunted_effect(decision("regression")) == pytest.approx(0.1)


BENCH = """\
import json, time
began = time.process_time()
while time.process_time() < began + {cost}:
    pass
took = time.process_time() - began
print(json.dumps({{"completed_requests": 1, "failed_requests": 0, "latency_median": took}}))
"""
CONFIG = """\
[[perf.cases]]
name = "burn"
command = ["python", "work.py"]
margin = 0.2
prior_sd = 0.05
"""


def git(folder: Path, *arguments: str) -> str:
    """Run git in a toy repository."""
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_command_names_the_commit_of_a_real_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".github").mkdir(parents=True)
    git(tmp_path, "init", "-q", str(repo))
    (repo / ".github/prgate.toml").write_text(CONFIG)
    shas = []
    for number in range(6):
        (repo / "work.py").write_text(BENCH.format(cost=0.02 if number < 3 else 0.06) + f"# {number}\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-qm", f"commit {number}")
        shas.append(git(repo, "rev-parse", "HEAD"))
    command = [
        sys.executable,
        "-c",
        "import bot.cli; bot.cli.main()",
        "bisect",
        "--repo",
        str(repo),
        "--case",
        "burn",
    ]
    ends = ["--good", shas[0], "--bad", shas[-1], "--json", "--allow-unsandboxed"]
    state = ["--state", str(tmp_path / "state.json")]
    done = subprocess.run([*command, *ends, *state], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == 0, document["says"]
    assert document["culprit"] == shas[3]
    wrong = subprocess.run(
        [*command, "--good", shas[-1], "--bad", shas[0]], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "ancestor" in wrong.stderr
