"""Twins: the same surface, the opposite truth. Whatever looks alike in the log, the evidence tells apart."""

from typing import Any

import pytest

from tests.bot.ci.world import base, file, green, issue, job, main, other, plain_log, red, ruling, world

TIMED_OUT = job(conclusion="timed_out", log="~~~ Running commands\n$ pytest\n", exit_status=124)
FORK = ("RuntimeError", "Cannot re-initialize CUDA in forked subprocess")
LOST = plain_log(
    "Traceback (most recent call last):", '  File "/app/tools/po.py", line 3, in <module>',
    "ModuleNotFoundError: No module named 'polib'",
)  # fmt: skip
ACCURACY = ("AssertionError", "accuracy 0.0000 is below 0.4000, invalid 0.994")
NEAR = ("AssertionError", "accuracy 0.3900 is below 0.4000, invalid 0.004")
FAULT = ("RuntimeError", "HIP error: an illegal memory access was encountered")
SIZE = ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 12.22 GiB")
PINS = [file("requirements/common.txt")]
CACHE = [file("engine/cache.py")]

TWINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a step that ran out of time": (
        world(TIMED_OUT, base_runs=[base(TIMED_OUT)]),
        world(TIMED_OUT, base_runs=[base(green())]),
    ),
    "a fork error": (
        world(red(error=FORK), base_runs=[base(red(error=FORK))]),
        world(red(error=FORK), files=CACHE, base_runs=[base(green())]),
    ),
    "a missing package": (
        world(job(log=LOST), base_runs=[base(job(log=LOST))]),
        world(job(log=LOST), files=[file("tools/po.py", "added")], base_runs=[base(green())]),
    ),
    "a dependency bump": (
        world(red(), files=PINS, base_runs=[base(red())]),
        world(
            red(error=("ImportError", "cannot import name 'x' from 'numpy'")),
            files=PINS,
            base_runs=[base(green())],
        ),
    ),
    "accuracy below the floor": (
        world(red(error=NEAR), base_runs=[base(red(error=NEAR))]),
        world(red(error=ACCURACY), base_runs=[base(red(error=NEAR))]),
    ),
    "a device fault": (
        world(red(error=FAULT), same_commit_runs=[green(attempt=2, agent="host-2")]),
        world(red(error=FAULT), same_commit_runs=[red(error=FAULT, attempt=2, agent="host-2")]),
    ),
    "red twice": (
        world(red(), base_runs=[base(red())], same_commit_runs=[red(attempt=2, agent="host-2")]),
        world(red(), base_runs=[base(green())], same_commit_runs=[red(attempt=2, agent="host-2")]),
    ),
    "the same test red elsewhere": (
        world(red(), other_prs=[other(8, red()), other(9, red())]),
        world(
            red(), other_prs=[other(8, red()), other(9, red(), changed_files=[{"path": "engine/cache.py"}])]
        ),
    ),
    "a change of documents only": (
        world(red(), files=[file("docs/a.md")], base_runs=[base(red())]),
        world(
            red(
                "Docs",
                test="tests/test_docs.py::test_names",
                error=("AssertionError", "unknown: docs/a.md"),
                through=(),
            ),
            files=[file("docs/a.md")],
            base_runs=[base(green("Docs"))],
        ),
    ),
    "memory": (
        world(red(error=SIZE), base_runs=[base(red(error=SIZE))]),
        world(
            red(error=SIZE),
            base_runs=[
                base(red(error=("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 9.80 GiB")))
            ],
        ),
    ),
    "a job that is red on the base": (
        world(red(), base_runs=[base(red())]),
        world(red(), base_runs=[base(red(error=("ValueError", "another thing")))]),
    ),
    "a tracked failure": (
        world(red(), known_issues=[issue(9, "test_evicts", "KeyError: 'lru_tail'")]),
        world(red(), known_issues=[issue(9, "test_evicts", "KeyError: 'lru_tail'")], pr={"body": "Fixes #9"}),
    ),
    "main that was red": (
        world(red(), base_runs=[main(red(), hours=30, sha="d"), main(red(), hours=20, sha="e")]),
        world(
            red(),
            base_runs=[
                main(red(), hours=30, sha="d"),
                main(red(), hours=20, sha="e"),
                base(green(), hours=5),
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_one_twin_is_cleared_and_the_other_is_not(name: str) -> None:
    innocent, guilty = TWINS[name]
    assert ruling(innocent)[0] == "unrelated"
    assert ruling(guilty)[0] in ("regression", "unknown")


@pytest.mark.parametrize(
    "name",
    ["a fork error", "a missing package", "a dependency bump", "red twice", "a change of documents only"],
)
def test_where_the_proof_is_complete_the_guilty_twin_is_called_so(name: str) -> None:
    assert ruling(TWINS[name][1]) == ("regression", "caused_by_pr")
