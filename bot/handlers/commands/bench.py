"""`bench [case…] [vs REV]`: measures this head, and no other, against its merge base."""

from datetime import datetime

from bot.actions import Schedule
from bot.commands import Command
from bot.escape import code
from bot.experiments import Arms, NoCases, choose_cases, experiment, listed
from bot.handlers.commands.shared import CommandFacts, Reply, moved, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Queue the experiment, or say why not."""
    look = facts.look
    if look.config.perf.when == "never":
        return says("Measuring is switched off in this repository's configuration (`perf.when`).")
    if not facts.head_was_there:
        return says(moved(facts, "bench"))
    if facts.merge_base_sha is None:
        return says(
            "GitHub knows no commit that this branch and its base share, so there is nothing to compare."
        )
    names, revision = split_revision(command.words)
    if any(name.casefold() == "vs" for name in names):
        return says("`vs` takes one revision, at the end: `bench [case…] [vs REV]`.")
    if revision and revision not in facts.revisions:
        return says(f"{code(revision)} is no commit of this repository.")
    try:
        cases = choose_cases(look.config.perf, names, look.facts)
    except NoCases as reason:
        return says(str(reason))
    third = (revision, facts.revisions[revision]) if revision else None
    arms = Arms(facts.merge_base_sha, look.target.head_sha, third)
    run = experiment(look.config.perf, cases, arms, look.target, facts.author)
    return says(queued(facts, cases, arms), actions=(run, Schedule("perf")))


def queued(facts: CommandFacts, cases: tuple[str, ...], arms: Arms) -> str:
    """Return what was queued."""
    third = f" and {code(arms.third[0])}" if arms.third else ""
    return (
        f"Queued: {listed(cases)}, head {code(arms.head_sha[:12])} against its merge base "
        f"{code(arms.base_sha[:12])}{third}. The performance note follows it."
    )


def split_revision(words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the cases and what follows `vs`."""
    lowered = [word.casefold() for word in words]
    if "vs" in lowered and lowered.index("vs") == len(words) - 2:
        return words[:-2], words[-1]
    return words, None
