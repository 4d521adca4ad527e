"""`settle [JOB…]`: runs the open failures' tests on purpose, on the merge base and on this very head."""

from collections.abc import Sequence
from datetime import datetime

from bot import settling
from bot.actions import Schedule
from bot.commands import Command
from bot.escape import code
from bot.experiments import Arms
from bot.handlers.commands.shared import CommandFacts, Reply, best_name, moved, names_in, says
from bot.settling import OpenTest

NOT_CONFIGURED = (
    "How tests run here is not configured: `[ci.settle]` in `.github/prgate.toml` on the base branch says so."
)


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Queue the run, whose comment follows it; or say why not."""
    config = facts.look.config.ci.settle
    if config is None:
        return says(NOT_CONFIGURED)
    if not facts.head_was_there:
        return says(moved(facts, "settle"))
    if facts.merge_base_sha is None:
        return says("GitHub knows no commit that this branch and its base share, so there is no base to run.")
    known = open_tests(facts)
    if not known:
        return says(nothing_open(facts))
    chosen, unknown = choose(command.text, known)
    if unknown:
        return says(not_open(unknown, known))
    tests = list(dict.fromkeys(one.test for one in chosen))
    arms = Arms(facts.merge_base_sha, facts.look.target.head_sha)
    run = settling.tests_run(
        config, tests[: config.most_tests], arms, facts.look.target, (facts.author, config.time_budget_s)
    )
    more = len(tests) - config.most_tests
    note = (f"{len(tests)} tests are open; the first {config.most_tests} are run.",) if more > 0 else ()
    return says(*note, actions=(run, Schedule("settle")))


def open_tests(facts: CommandFacts) -> tuple[OpenTest, ...]:
    """Return this head's open tests, as its latest verdict names them."""
    value = facts.memory("ci")
    if value.get("head_sha") != facts.look.target.head_sha:
        return ()
    return settling.from_values(value.get("open_tests"))


def nothing_open(facts: CommandFacts) -> str:
    """Return why there is nothing to run."""
    value = facts.memory("ci")
    if value.get("head_sha") != facts.look.target.head_sha:
        return "No verdict on this head's CI is there yet."
    return (
        "No failure of this head is open in a way that running its tests would settle: that needs a verdict "
        "\u201cnot decided\u201d, a known test, and a failure that does not hang on a machine."
    )


def choose(text: str, known: Sequence[OpenTest]) -> tuple[list[OpenTest], list[str]]:
    """Return the open tests that are meant (all of them without a name), and the names that mean none."""
    chosen: list[OpenTest] = []
    unknown = []
    for name in names_in(text):
        tests = [one for one in known if one.test == name]
        job = best_name(name, [one.job for one in known]) if not tests else None
        tests = tests or [one for one in known if one.job == job]
        chosen += tests
        unknown += [] if tests else [name]
    return (chosen if text.strip() else list(known)), unknown


def not_open(unknown: Sequence[str], known: Sequence[OpenTest]) -> str:
    """Return what is said where a name is no open test's and no job's with one."""
    jobs = ", ".join(code(job) for job in dict.fromkeys(one.job for one in known))
    named = ", ".join(code(name) for name in unknown[:5])
    return f"{named}: no open failure has that name. Open are tests of {jobs}; separate names by commas."
