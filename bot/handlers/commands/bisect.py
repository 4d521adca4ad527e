"""`bisect [CASE] [GOOD..BAD]`: searches the first bad commit of a slowdown, by default in this head."""

from datetime import datetime

from bot.actions import Schedule
from bot.bisecting import USAGE, Wanted, bisect_run, choose_case, wanted
from bot.commands import Command
from bot.escape import code
from bot.experiments import Arms, NoCases
from bot.handlers.commands.shared import CommandFacts, Reply, moved, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Queue the search, whose comment follows it; or say why not."""
    look, asked = facts.look, wanted(command.words)
    if look.config.perf.when == "never":
        return says("Measuring is switched off in this repository's configuration (`perf.when`).")
    if asked.problem:
        return says(asked.problem)
    if not facts.head_was_there:
        return says(moved(facts, "bisect"))
    unknown = [name for name in asked.revisions if name not in facts.revisions]
    if unknown:
        return says(f"{code(unknown[0])} is no commit of this repository; a range is {USAGE}.")
    good = facts.revisions[asked.good] if asked.good else facts.merge_base_sha
    bad = facts.revisions[asked.bad] if asked.bad else look.target.head_sha
    if good is None:
        return says(
            "GitHub knows no commit that this branch and its base share: name the range, as in " + USAGE
        )
    if good == bad or (not asked.revisions and look.facts.commits == 1):
        return says(nothing_between(asked))
    try:
        case = choose_case(look.config.perf, asked.case, facts.memory("perf").get("cases", ()))
    except NoCases as reason:
        return says(str(reason))
    run = bisect_run(look.config.perf, case, Arms(good, bad), look.target, facts.author)
    return Reply((), (run, Schedule("bisect")))


def nothing_between(asked: Wanted) -> str:
    """Return what is said about a range without a commit to search."""
    if asked.revisions:
        return "Good and bad are one commit: there is nothing to search between them."
    return (
        "This pull request has one commit, so there is nothing to search in it. "
        f"To search in the base branch, name the range: {USAGE}."
    )
