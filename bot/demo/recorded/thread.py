"""What people wrote on the recorded pull requests, as steps in the order of time."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot.demo.recorded.ci import REQUIRED_CONTEXT, Build, builds
from bot.demo.target import TargetRepository

FOLDER = Path(__file__).parent
REPOSITORY = "omni-lite/omni-lite"
FIX_PULL, CULPRIT_PULL, ISSUE = 7801, 5931, 7780
PEOPLE: Mapping[str, str] = {
    "owner-01": "admin",
    "owner-02": "write",
    "owner-03": "write",
    "owner-04": "write",
    "owner-05": "write",
    "owner-06": "write",
    "owner-07": "write",
    "owner-10": "admin",
    "author-01": "read",
    "author-02": "read",
    "author-03": "read",
    "stranger-01": "read",
}
MarkerName = Literal["route", "ci"]


class Value(BaseModel):
    """A recorded value: never changed after it was read."""

    model_config = ConfigDict(frozen=True)


class Issue(Value):
    """An issue that a pull request is linked to."""

    number: int
    title: str
    body: str
    author: str
    labels: tuple[str, ...]
    created_at: datetime


class Pull(Value):
    """A pull request as it was opened."""

    number: int
    title: str
    body: str
    author: str
    association: str
    branch: str
    head_sha: str
    merge_base: str
    base_branch: str = "main"
    labels: tuple[str, ...] = ()
    created_at: datetime


class Step(Value):
    """Something that happened: a pull request opened, builds finished, or a comment.

    `pastes` names the bot's comment whose whole text stands before `body`: people quote it so.
    """

    kind: Literal["open", "builds", "comment"]
    at: datetime
    pull: int
    author: str = ""
    body: str = ""
    pastes: MarkerName | None = None


class Recording(Value):
    """The whole record. `builds` also holds those of main; `people` maps login to permission."""

    repository: str
    required: tuple[str, ...]
    people: Mapping[str, str]
    issue: Issue
    fix: Pull
    culprit: Pull
    steps: tuple[Step, ...]
    builds: tuple[Build, ...]

    def builds_of(self, sha: str) -> tuple[Build, ...]:
        """Return the builds that ran on one commit."""
        return tuple(build for build in self.builds if build.commit == sha)


def text(name: str) -> str:
    """Return one recorded text."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def at(day: int, hour: int, minute: int) -> datetime:
    """Return a moment of the recorded month, September 2026."""
    return datetime(2026, 9, day, hour, minute, tzinfo=UTC)


def fix_pull(target: TargetRepository) -> Pull:
    """Return the fix's pull request."""
    return Pull(
        number=FIX_PULL,
        title="[Bugfix] Gate the fused QK-norm + RoPE route of Qwen-Image on short sequences (#7780)",
        body=text("fix_pull").format(parent=target.parent, culprit=target.culprit),
        author="author-01",
        association="CONTRIBUTOR",
        branch=target.fix_branch,
        head_sha=target.fix_head,
        merge_base=target.main,
        labels=("ready",),
        created_at=at(24, 9, 58),
    )


def culprit_pull(target: TargetRepository) -> Pull:
    """Return the culprit's pull request, as it stood before it was merged."""
    return Pull(
        number=CULPRIT_PULL,
        title="[Perf] Take the fused QK-norm + RoPE route in Qwen-Image",
        body=text("culprit_pull"),
        author="author-02",
        association="CONTRIBUTOR",
        branch=target.culprit_branch,
        head_sha=target.culprit_head,
        merge_base=target.parent,
        created_at=at(14, 8, 51),
    )


def nightly_issue() -> Issue:
    """Return the nightly's issue, which the fix closes."""
    return Issue(
        number=ISSUE,
        title="[Nightly] Qwen-Image 512x512 is slower than its baseline for 3 days",
        body=text("issue"),
        author="owner-06",
        labels=("high priority", "ci-failure"),
        created_at=at(18, 6, 30),
    )


def steps() -> tuple[Step, ...]:
    """Return what happened, oldest first."""

    def said(when: datetime, pull: int, author: str, body: str, pastes: MarkerName | None = None) -> Step:
        return Step(kind="comment", at=when, pull=pull, author=author, body=body, pastes=pastes)

    return (
        Step(kind="open", at=at(14, 8, 51), pull=CULPRIT_PULL),
        Step(kind="builds", at=at(14, 9, 40), pull=CULPRIT_PULL),
        said(at(14, 11, 5), CULPRIT_PULL, "owner-02", "@prgate bench 512x512_steps20"),
        Step(kind="open", at=at(24, 9, 58), pull=FIX_PULL),
        said(at(24, 10, 20), FIX_PULL, "author-01", text("self_review"), "route"),
        Step(kind="builds", at=at(24, 10, 50), pull=FIX_PULL),
        said(at(24, 11, 2), FIX_PULL, "owner-01", "LGTM. Thanks!"),
        said(at(24, 11, 31), FIX_PULL, "author-01", text("unrelated_cuda"), "ci"),
        said(at(24, 11, 44), FIX_PULL, "author-01", text("unrelated_rocm")),
        said(at(24, 12, 10), FIX_PULL, "owner-02", "@prgate bench 512x512_steps20"),
    )


def load(target: TargetRepository, main_green: bool = False) -> Recording:
    """Return the record with the commits of `target` in it; `main_green`: main never failed the six tests."""
    return Recording(
        repository=REPOSITORY,
        required=(REQUIRED_CONTEXT,),
        people=PEOPLE,
        issue=nightly_issue(),
        fix=fix_pull(target),
        culprit=culprit_pull(target),
        steps=steps(),
        builds=builds(target, FIX_PULL, CULPRIT_PULL, main_green),
    )
