"""What people and CI do: 200 deliveries about eight pull requests, always the same ones in the same order.

What is said of a pull request in the end must not hang on how fast the bot was: nobody speaks about a state
that passes, and what is measured is measured once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bot.demo.github.hub import Hub
from tests.faults.repository import PULLS, branch, later

CI = "buildkite[bot]"
CONTEXT = "buildkite/engine"
MEASURED = (2, 4, 6, 8)


@dataclass(frozen=True)
class Step:
    """One doing; `does` may bring several deliveries."""

    name: str
    does: Callable[[Hub], object]


def steps(pulls: int = PULLS) -> list[Step]:
    """Return everything that happens, the pull requests side by side."""
    lives = [list(life(n)) for n in range(1, pulls + 1)]
    longest = max(len(one) for one in lives)
    return [one[place] for place in range(longest) for one in lives if place < len(one)]


def life(n: int) -> Iterator[Step]:
    """Yield what happens to the n-th pull request."""
    author, owner = f"author-{n}", f"owner-{n}"
    yield Step(f"open {n}", lambda hub: hub.open_pull(n, branch(n), author, title=f"[Feature] Part {n}"))
    yield status(n, "pending")
    yield label(n, "perf")
    yield say(n, "maintainer-01", "@prgate help")
    yield say(n, "stranger-01", "@prgate pause")
    if n not in MEASURED:
        yield Step(f"push {n}", lambda hub: hub.push(branch(n), tip(hub, n), author))
        yield say(n, author, "I read my diff again: self-review done.")
    yield status(n, "failure" if n % 2 else "success")
    yield say(n, owner, "LGTM")
    yield say(n, "maintainer-01", "@prgate priority high")
    yield label(n, "bug")
    yield say(n, "maintainer-01", "@prgate helpp")
    if n in MEASURED:
        yield say(n, "maintainer-01", "@prgate bench")
    for context in ("buildkite/docs", "buildkite/lint"):
        yield status(n, "pending", context=context)
        yield status(n, "success", context=context)
    yield Step(f"unlabel {n}", lambda hub: hub.unlabel(n, author, "bug"))
    yield say(n, "maintainer-01", "@prgate ask")
    yield say(n, author, "Thank you.")
    yield Step(f"retitle {n}", lambda hub: hub.edit_pull(n, author, title=f"[Feature] Part {n}, better"))
    yield say(n, "maintainer-01", "@prgate ask")
    yield Step(f"draft {n}", lambda hub: hub.edit_pull(n, author, draft=True))
    yield Step(f"ready {n}", lambda hub: hub.edit_pull(n, author, draft=False))
    yield say(n, owner, "One more look at the tests, please.")
    yield label(n, "documentation")


def tip(hub: Hub, n: int) -> str:
    """Return the commit that is pushed to the n-th pull request."""
    found = hub.git.resolve(later(n))
    assert found is not None
    return found


def say(n: int, user: str, body: str) -> Step:
    """A comment."""
    return Step(f"comment on {n}", lambda hub: hub.comment(n, user, body))


def label(n: int, name: str) -> Step:
    """A label."""
    return Step(f"label {n}", lambda hub: hub.label(n, f"author-{n}", [name]))


def status(n: int, state: str, context: str = CONTEXT) -> Step:
    """A commit status on the head."""
    return Step(
        f"status of {n}",
        lambda hub: hub.set_status(
            hub.require_pull(n).head_sha, context, state, CI, description=f"CI says {state}"
        ),
    )
