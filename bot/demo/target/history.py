"""What was committed in the recorded repository, in order: texts only, no git.

Main: a start, changes that leave the benchmark alone, the culprit, more such changes (one of them breaks six
tests of the Wan decoder's fast path), and the tip. Two branches: the culprit's pull request and the fix's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from bot.demo.target.files import layer

TRANSFORMER = "omni_lite/diffusion/models/qwen_image/qwen_image_transformer.py"
ENVIRONMENT_PAGE = "docs/configuration/environment.md"
INTEGRATION_PAGE = "docs/design/module/diffusion/diffusion_model_integration.md"
OFFLOADER = "omni_lite/diffusion/offloader/layerwise.py"


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which must occur, by `new` in one file; an empty `old` appends."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Commit:
    """One commit: what it writes on top of the one before."""

    name: str
    author: str
    subject: str
    body: str = ""
    layers: tuple[str, ...] = ()
    writes: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    at: datetime = datetime(2026, 9, 3, 8, 0, tzinfo=UTC)


@dataclass(frozen=True)
class World:
    """How history is told otherwise: each switch is one question of what the bot would then say."""

    gate_in_culprit: bool = False
    gate_in_fix: bool = True
    main_green: bool = False
    integration_owner: str | None = None


def spread(commits: tuple[Commit, ...], first: datetime, step: timedelta) -> tuple[Commit, ...]:
    """Return the commits with their times: the first at `first`, then one each `step`."""
    return tuple(replace(commit, at=first + step * number) for number, commit in enumerate(commits))


def before() -> tuple[Commit, ...]:
    """Return the commits up to the culprit's parent."""
    commits = (
        Commit("start", "owner-01", "Start with attention, its layers and a benchmark", layers=("start",)),
        Commit(
            "offloader-zero",
            "owner-03",
            "Refuse a negative budget in the offloader",
            edits=(
                Edit(
                    OFFLOADER,
                    "    kept, used = [], 0.0\n",
                    '    if budget_mb < 0:\n        raise ValueError("the budget must be 0 or more")\n'
                    "    kept, used = [], 0.0\n",
                ),
            ),
        ),
        Commit(
            "offloader-tests",
            "owner-03",
            "Test which layers stay resident",
            writes={"tests/diffusion/offloader/test_layerwise.py": OFFLOADER_TEST},
        ),
        Commit("wan", "owner-04", "Add a fast path for the Wan decoder's norms", layers=("wan",)),
        Commit(
            "queue-tests",
            "owner-05",
            "Test that a batch holds equal step counts",
            writes={"tests/diffusion/sched/test_queue.py": QUEUE_TEST},
        ),
        Commit("nightly-page", "owner-06", "Say how nightly numbers are read", edits=(NIGHTLY_NOTE,)),
        Commit(
            "queue-limit",
            "owner-05",
            "Refuse a batch limit below one",
            edits=(
                Edit(
                    "omni_lite/diffusion/sched/queue.py",
                    "    if not waiting:\n",
                    '    if limit < 1:\n        raise ValueError("the limit must be 1 or more")\n'
                    "    if not waiting:\n",
                ),
            ),
        ),
        Commit(
            "readme-environment",
            "owner-10",
            "Point from the readme to the environment variables",
            edits=(Edit("README.md", "", "\nSettings: `docs/configuration/environment.md`.\n"),),
        ),
        Commit(
            "parent",
            "owner-02",
            "Describe what a new model must prove",
            edits=(Edit(INTEGRATION_PAGE, "", "\nA new model shows parity with its reference block.\n"),),
        ),
    )
    return spread(commits, datetime(2026, 9, 3, 8, 0, tzinfo=UTC), timedelta(days=1))


def culprit() -> Commit:
    """Return the change on main that always takes the fused route."""
    return Commit(
        "culprit",
        "author-02",
        "[Perf] Take the fused QK-norm + RoPE route in Qwen-Image (#5931)",
        "Queries and keys are normed and rotated in one product.",
        layers=("culprit",),
        at=datetime(2026, 9, 15, 14, 28, tzinfo=UTC),
    )


def culprit_pull(world: World) -> Commit:
    """Return the head of the culprit's pull request (with the gate in it, where the world says so)."""
    return Commit(
        "culprit_head",
        "author-02",
        "[Perf] Take the fused QK-norm + RoPE route in Qwen-Image",
        layers=("fix",) if world.gate_in_culprit else ("culprit",),
        at=datetime(2026, 9, 14, 8, 40, tzinfo=UTC),
    )


def after(world: World) -> tuple[Commit, ...]:
    """Return the commits on main behind the culprit, the tip last."""
    breaking = Commit(
        "wan-break",
        "author-03",
        "Move the decoders' norms into one registry (#7702)",
        "One name for all checkpoints.",
        layers=("wan_break",),
    )
    handed_over = Commit(
        "handed-over",
        "owner-10",
        "Hand the model integration over",
        edits=(Edit(INTEGRATION_PAGE, OWNERS, f'owners:\n  - "{world.integration_owner}"\n'),),
    )
    commits = (
        note("owner-06", "Say which case guards which layer", "docs/design/module/benchmarking.md"),
        note("owner-04", "Note how parallel decoding is tested", RUNTIME_PAGE),
        Commit(
            "offloader-name",
            "owner-03",
            "Name the layer in the offloader's docstring",
            edits=(Edit(OFFLOADER, "of the first layers whose", "of the leading layers whose"),),
        ),
        *(() if world.main_green else (breaking,)),
        note(
            "owner-10",
            "Explain how pages and owners belong together",
            "docs/design/module/diffusion/index.md",
        ),
        note("owner-05", "Note the order of arrival", RUNTIME_PAGE),
        Commit(
            "version",
            "owner-10",
            "Begin 0.4",
            edits=(
                Edit("omni_lite/__init__.py", "0.3.0", "0.4.0.dev0"),
                Edit("pyproject.toml", 'version = "0.3.0"', 'version = "0.4.0.dev0"'),
            ),
        ),
        note("owner-03", "Note what an offloaded layer costs", "docs/design/module/diffusion/offloader.md"),
        *((handed_over,) if world.integration_owner else ()),
        note("owner-01", "List the models that take a fused route", INTEGRATION_PAGE, name="main"),
    )
    return spread(commits, datetime(2026, 9, 16, 10, 0, tzinfo=UTC), timedelta(hours=19))


def note(author: str, subject: str, path: str, name: str = "") -> Commit:
    """Return a commit that adds one sentence to a page."""
    return Commit(name or subject, author, subject, edits=(Edit(path, "", f"\n{subject}: see the tests.\n"),))


def fix(world: World) -> tuple[Commit, ...]:
    """Return the fix's branch: the gate and its tests, then the page (and a later push)."""
    gate = Commit(
        "fix_first",
        "author-01",
        "[Bugfix] Gate the fused QK-norm + RoPE route of Qwen-Image on short sequences",
        layers=("fix",),
    )
    comment_only = Commit(
        "fix_first",
        "author-01",
        "[Bugfix] Reword the fused QK-norm + RoPE route of Qwen-Image",
        edits=(
            Edit(TRANSFORMER, 'normed and rotated."""\n        cos', 'normed, then rotated."""\n        cos'),
        ),
    )
    page = Commit(
        "fix_head",
        "author-01",
        "Name Qwen-Image beside Boogu on the page of variables",
        edits=(Edit(ENVIRONMENT_PAGE, "Boogu's attention takes", "Boogu's and Qwen-Image's attention take"),),
    )
    later = Commit(
        "fix_next",
        "author-01",
        "Say on the page what the default was chosen by",
        edits=(Edit(ENVIRONMENT_PAGE, "", "\nThe default is the crossover measured for Boogu.\n"),),
    )
    commits = (gate if world.gate_in_fix else comment_only, page, later)
    return spread(commits, datetime(2026, 9, 24, 9, 20, tzinfo=UTC), timedelta(minutes=30))


RUNTIME_PAGE = "docs/design/module/diffusion/diffusion_runtime.md"
OWNERS = 'owners:\n  - "@owner-01"\n  - "@owner-02"\n'
NIGHTLY_NOTE = Edit(
    "docs/design/module/benchmarking.md",
    "",
    "\nA nightly number is compared with the same case on the same kind of host only.\n",
)
OFFLOADER_TEST = """import pytest

from omni_lite.diffusion.offloader.layerwise import resident_layers

pytestmark = [pytest.mark.core_model, pytest.mark.cpu]


def test_layers_stay_while_they_fit():
    assert resident_layers([10.0, 20.0, 30.0], 35.0) == [0, 1]


def test_a_negative_budget_is_refused():
    with pytest.raises(ValueError, match="budget"):
        resident_layers([1.0], -1.0)
"""
QUEUE_TEST = """import pytest

from omni_lite.diffusion.sched.queue import next_batch

pytestmark = [pytest.mark.core_model, pytest.mark.cpu]


def test_a_batch_holds_equal_step_counts():
    assert next_batch([(1, 20), (2, 35), (3, 20)], limit=4) == [1, 3]
"""


def apply(commit: Commit, tree: Mapping[str, str]) -> dict[str, str]:
    """Return the files after `commit`; ValueError where an edit finds nothing to replace."""
    files = dict(tree)
    for name in commit.layers:
        files.update(layer(name))
    files.update(commit.writes)
    for edit in commit.edits:
        text = files[edit.path]
        if edit.old and edit.old not in text:
            raise ValueError(f"{commit.subject!r} finds nothing to change in {edit.path}")
        files[edit.path] = text.replace(edit.old, edit.new, 1) if edit.old else text + edit.new
    return files
