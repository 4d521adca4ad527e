"""`more`: goes on with a measurement that was inconclusive."""

from dataclasses import replace
from datetime import datetime

from bot.actions import EnqueueRun, Schedule
from bot.commands import Command
from bot.db.models import RunState
from bot.handlers.commands.shared import CommandFacts, Reply, moved, says
from bot.handlers.perf import RunFacts, current_run
from bot.perf_note import overall
from bot.run_results import results_of
from perf_runner.models import Outcome

MOST_BLOCKS = 60


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Queue a run that takes the blocks over and may use as many again."""
    run = current_run(facts.look, facts.runs)
    if run is None:
        return says(f"This head was not measured yet; `{facts.at} bench` does.")
    if run.open:
        return says("The measurement is not over yet.")
    if run.state is not RunState.DONE or overall(results_of(run.result)) is not Outcome.INCONCLUSIVE:
        return says("Only an inconclusive measurement gains by more blocks.")
    if not facts.head_was_there:
        return says(moved(facts, "bench"))
    blocks = int(run.spec.get("max_blocks") or facts.look.config.perf.max_blocks)
    if blocks >= MOST_BLOCKS:
        return says(f"It had {blocks} blocks; more will not make this machine quieter.")
    queued = continued(run, min(2 * blocks, MOST_BLOCKS), facts)
    return says(f"Queued: up to {queued.spec['max_blocks']} blocks.", actions=(queued, Schedule("perf")))


def continued(run: RunFacts, max_blocks: int, facts: CommandFacts) -> EnqueueRun:
    """Return the run that goes on where `run` ended."""
    key = f"more:{run.run_id}"
    spec = {**run.spec, "max_blocks": max_blocks}
    made = EnqueueRun("experiment", run.queue, run.base_sha, spec, facts.author, key)
    return replace(made, resume_of=run.run_id)
