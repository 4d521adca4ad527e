"""The recorded fix's description: what its evidence lacks, and what its own tables confirm."""

from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from bot.demo.recorded import load
from bot.demo.target import build_target
from bot.review import Review, ReviewRequest, review


def reviewed(folder: Path) -> Review:
    fix = load(build_target(folder / "target.git")).fix
    return review(ReviewRequest(title=fix.title, body=fix.body))


def test_the_gaps_of_its_evidence_are_found(tmp_path: Path) -> None:
    assert {finding.rule for finding in reviewed(tmp_path).findings} == {
        "tail-latency-from-few-samples",
        "no-raw-runs",
        "noise-without-figure",
        "evidence-from-other-hardware",
        "open-test-row",
    }


def test_its_percentages_follow_from_its_table(tmp_path: Path) -> None:
    confirmed = {claim.value_pct for claim in reviewed(tmp_path).claims if claim.confirmed}
    assert {-10.9, -2.3} <= confirmed


def test_it_reads_as_agreed(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert reviewed(tmp_path).model_dump(mode="json") == snapshot
