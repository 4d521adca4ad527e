"""One case of one request, from the repository to the result: the one way that every caller measures."""

import shutil
from collections.abc import Callable, Sequence

from perf_runner.experiment import Experiment, Hooks
from perf_runner.models import Block, CaseResult, Machine
from perf_runner.workspace import BuildError, Request, Workspace


def measure_case(
    workspace: Workspace,
    request: Request,
    hooks: Hooks | None = None,
    stored: Sequence[Block] = (),
    machine: Machine | None = None,
    begin: Callable[[Experiment], None] = lambda experiment: None,
) -> CaseResult:
    """Return the result of one case; `begin` is handed the experiment before it runs, to cancel it by.

    A revision that does not build, or whose benchmark fails, is a result with `error`. ValueError says what
    is wrong with the request itself; CanceledError that the experiment was canceled.
    """
    plan, places = workspace.prepare(request)
    experiment = Experiment(plan, places, hooks or Hooks())
    begin(experiment)
    try:
        workspace.build(plan, places)
        return experiment.run(stored, machine)
    except BuildError as error:
        return CaseResult(case=plan.case, arms=plan.arms, notes=plan.notes, machine=machine, error=str(error))
    finally:
        for place in places.values():
            shutil.rmtree(place.source, ignore_errors=True)
