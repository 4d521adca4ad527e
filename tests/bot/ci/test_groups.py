"""Failures that are one are shown as one: across shards, platforms and jobs, with all their exceptions."""

from bot.ci.verdict import Verdict
from tests.bot.ci.world import base, file, green, job, plain_log, pytest_log, read, verdict, world

FILE = "tests/diffusion/distributed/test_vae_install.py"
INSTALL = "engine/vae/install.py"
LOST = ("KeyError", "'RowNorm'")
FALSE = ("AssertionError", "assert False is True")
GONE = ("ImportError", "cannot import name 'RowNormVae' from 'engine.norm' (/workspace/engine/norm.py)")
SIX = [
    (f"{FILE}::test_every_norm_is_patched", LOST),
    (f"{FILE}::test_report_counts", LOST),
    (f"{FILE}::test_reports[lossless]", FALSE),
    (f"{FILE}::test_reports[balanced]", FALSE),
    (f"{FILE}::test_second_time", FALSE),
    (f"{FILE}::test_norm_is_known", GONE),
]
CHANGED = [file("engine/models/image/transformer.py"), file("engine/layers/qk_norm.py")]


def installs(name: str, *tests: int, **more: object) -> dict[str, object]:
    log = pytest_log(*[SIX[place] for place in tests], through=(), stamps=bool(more.get("agent")))
    return job(name, log=log, **more)


def fails_everywhere(*runs: dict[str, object]) -> dict[str, object]:
    """Return a head on which the six tests fail on cuda, and split over two shards on rocm; xpu is green."""
    return world(
        installs("Simple Test", 0, 1, 2, 3, 4, 5),
        installs("AMD: Simple Test (shard 1)", 0, 1, 2, 3, platform="rocm", agent="mi-1"),
        installs("AMD: Simple Test (shard 2)", 4, 5, platform="rocm", agent="mi-2"),
        green("Intel: Simple Test", platform="xpu"),
        files=CHANGED,
        base_runs=list(runs),
    )


def one_group(found: Verdict) -> None:
    (group,) = found.groups
    assert group.count == 6
    assert group.platforms == ("cuda", "rocm")
    assert len(group.jobs) == 3
    assert {text.partition(":")[0] for text in group.exceptions} == {
        "KeyError",
        "ImportError",
        "AssertionError",
    }
    assert len(group.exceptions) == 3
    assert group.places == (FILE,)


def test_six_tests_on_two_platforms_are_one_group_with_three_exceptions() -> None:
    found = verdict(fails_everywhere(base(installs("Simple Test", 0, 1, 2, 3, 4, 5))))
    assert (found.overall, {failure.kind for failure in found.failures}) == ("unrelated", {"broken_trunk"})
    assert len(found.failures) == 12
    one_group(found)


def test_with_a_green_main_they_are_one_group_still_and_no_longer_unrelated() -> None:
    found = verdict(fails_everywhere(base(green("Simple Test"), green("AMD: Simple Test (shard 1)"))))
    assert found.overall in ("unknown", "regression")
    assert {failure.verdict for failure in found.failures} & {"unrelated"} == set()


def test_without_any_baseline_they_are_one_unknown_group() -> None:
    found = verdict(fails_everywhere())
    assert found.overall == "unknown"
    one_group(found)
    assert found.groups[0].would_settle_it


def test_failures_with_different_verdicts_are_never_one_group() -> None:
    new = (f"{FILE}::test_new", ("ValueError", "no such norm: rows"))
    log = pytest_log(*SIX[:2], new, through=())
    found = verdict(world(job("Simple Test", log=log), base_runs=[base(installs("Simple Test", 0, 1))]))
    assert [(group.verdict, group.count) for group in found.groups] == [("unknown", 1), ("unrelated", 2)]


def test_one_import_error_in_many_steps_is_one_group() -> None:
    error = ["Traceback (most recent call last):", '  File "/x/serve.py", line 1, in <module>']
    log = plain_log(*error, "ImportError: cannot import name 'ToolCall' from 'engine.parser'")
    jobs = [job(f"NPU · {name} Test", log=log, platform="npu") for name in ("Speech", "Image", "Text")]
    found = verdict(world(*jobs, base_runs=[base(*jobs)]))
    assert [(group.count, len(group.jobs)) for group in found.groups] == [(3, 3)]


def test_the_contract_holds_every_key() -> None:
    document = verdict(fails_everywhere()).to_contract()
    assert document["schema"] == 1
    assert {"repo", "pr", "head_sha", "failures", "overall", "groups"} <= document.keys()
    failure = document["failures"][0]
    assert {
        "job",
        "job_id",
        "test",
        "signature",
        "verdict",
        "kind",
        "evidence",
        "would_settle_it",
    } <= failure.keys()
    assert failure["signature"].keys() == {"exception", "message"}
    assert failure["evidence"][0].keys() == {"rule", "strength", "says", "url", "sha"}
    assert {"signature", "jobs", "platforms"} <= document["groups"][0].keys()


def test_the_verdict_is_the_same_each_time() -> None:
    snapshot = fails_everywhere(base(installs("Simple Test", 0, 1, 2, 3, 4, 5)))
    assert verdict(snapshot) == verdict(snapshot)
    assert read(snapshot).model_dump() == read(snapshot).model_dump()
