"""One claimed run from its spec to its report: measures cases, runs tests on both arms, or bisects."""

import contextlib
import logging
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perf_runner.bisect_errand import Search
from perf_runner.bisect_run import BisectRecord
from perf_runner.checkout import Repository, import_repository
from perf_runner.client import RefusedError, RunLostError, ServiceClient, ServiceError
from perf_runner.experiment import CanceledError, Experiment, Hooks
from perf_runner.measure import measure_case
from perf_runner.models import BenchmarkCase, Block, CaseResult, Machine
from perf_runner.plan import GateOverrides, Progress
from perf_runner.protocol import Beat, Offer, Report, RunSpec, StoredBlock, TestOutcome
from perf_runner.sandbox import Sandbox, SandboxUnavailableError, find_sandbox
from perf_runner.settings import LaneSettings
from perf_runner.testing import TestRun
from perf_runner.workspace import Request, Workspace

log = logging.getLogger("prgate.runner")
BEATS_PER_LEASE = 4.0
MIN_BEAT_S = 0.2


@dataclass
class Pulse:
    """What the beats carry: written by the measuring thread, read by the beating one."""

    progress: Progress | None = None
    blocks: list[StoredBlock] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, progress: Progress) -> None:
        """Keep the newest progress."""
        with self.lock:
            self.progress = progress

    def keep(self, case: str, block: Block) -> None:
        """Keep a block until a beat has carried it."""
        with self.lock:
            self.blocks.append(StoredBlock(case=case, block=block))

    def taken(self) -> tuple[Progress | None, tuple[StoredBlock, ...]]:
        """Return what the next beat carries."""
        with self.lock:
            return self.progress, tuple(self.blocks[:100])

    def delivered(self, count: int) -> None:
        """Forget the blocks that arrived."""
        with self.lock:
            del self.blocks[:count]


class Errand:
    """One run under way in this process. `stop` hands it back; a lost or canceled run ends by itself."""

    def __init__(self, client: ServiceClient, offer: Offer, spec: RunSpec, settings: LaneSettings) -> None:
        self.client, self.offer, self.spec, self.settings = client, offer, spec, settings
        self.pulse = Pulse()
        self.why_ended: str | None = None  # "canceled", "handed_back" or "lost", once somebody says so
        self._working: Experiment | TestRun | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()

    def stop(self, why: str = "handed_back") -> None:
        """End the work in progress soon; callable from another thread."""
        with self._lock:
            self.why_ended = self.why_ended or why
            working = self._working
        if working is not None:
            working.cancel()

    def run(self, machine: Machine) -> None:
        """Do the run and report its end, unless it was lost meanwhile."""
        beating = threading.Thread(target=self._beat_until_done, daemon=True)
        beating.start()
        try:
            report = self._work(machine)
        finally:
            self._done.set()
            beating.join()
        self._beat()
        if self.why_ended == "lost":
            return
        with contextlib.suppress(RunLostError):
            self.client.report(self.offer, report)

    def _work(self, machine: Machine) -> Report:
        results: list[CaseResult] = []
        report = Report(worker=self.client.worker, attempt=self.spec.attempt, outcome="done", machine=machine)
        try:
            sandbox = self._sandbox()
            with self._workspace(sandbox) as workspace:
                if self.spec.kind == "tests":
                    return report.model_copy(update={"tests": self._run_tests(workspace)})
                if self.spec.kind == "bisect":
                    return report.model_copy(update={"bisect": self._bisect(workspace, machine)})
                for result in self._measure_cases(workspace, machine):
                    results.append(result)
            return report.model_copy(update={"results": tuple(results)})
        except CanceledError:
            ended = "handed_back" if self.why_ended == "handed_back" else "canceled"
            return report.model_copy(update={"outcome": ended, "results": tuple(results)})
        except (ValueError, ServiceError, SandboxUnavailableError, OSError) as error:
            said = " ".join(str(error).split())[:1000] or type(error).__name__
            return report.model_copy(update={"outcome": "failed", "results": tuple(results), "error": said})
        except Exception:
            incident = uuid.uuid4().hex[:12]
            log.exception("run %s: internal error %s", self.spec.run_id, incident)
            return report.model_copy(update={"outcome": "failed", "error": f"internal error {incident}"})

    def _sandbox(self) -> Sandbox | None:
        try:
            return find_sandbox()
        except SandboxUnavailableError:
            if self.settings.allow_unsandboxed and self.spec.allow_unsandboxed:
                return None
            raise

    @contextlib.contextmanager
    def _workspace(self, sandbox: Sandbox | None) -> Iterator[Workspace]:
        if self.settings.work_folder is not None:
            self.settings.work_folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="prgate-run-", dir=self.settings.work_folder))
        try:
            bundle = folder / "source.bundle"
            self.client.bundle(self.offer, bundle)
            repository: Repository = import_repository(bundle, folder / "git")
            bundle.unlink()
            yield Workspace(repository, folder, sandbox)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _measure_cases(self, workspace: Workspace, machine: Machine) -> Iterator[CaseResult]:
        deadline_s = time.monotonic() + self.spec.time_budget_s
        for case in self.spec.cases:
            name = case.name if isinstance(case, BenchmarkCase) else case
            left_s = max(deadline_s - time.monotonic(), 1.0)
            allowed = self.spec.allow_changed_lock
            request = Request(self._arms(), case, overrides_for(self.spec, name), left_s, allowed)
            hooks = Hooks(
                on_block=lambda block, name=name: self.pulse.keep(name, block),  # type: ignore[misc]
                on_progress=self.pulse.show,
            )
            stored = self.spec.blocks.get(name, ())
            result = measure_case(workspace, request, hooks, stored, machine, self._begin)
            yield result.model_copy(update={"arms": self.spec.arms})

    def _run_tests(self, workspace: Workspace) -> tuple[TestOutcome, ...]:
        if self.spec.tests is None:
            raise ValueError("the run names no tests")
        run = TestRun(
            self.spec.tests, workspace, self._arms(), self.spec.time_budget_s, on_progress=self.pulse.show
        )
        self._begin(run)
        return run.run()

    def _bisect(self, workspace: Workspace, machine: Machine) -> BisectRecord:
        return Search(self.spec, workspace, machine, self.pulse.keep, self.pulse.show, self._begin).run()

    def _arms(self) -> tuple[tuple[str, str], ...]:
        return tuple((arm.name, arm.sha) for arm in self.spec.arms)

    def _begin(self, working: Experiment | TestRun) -> None:
        with self._lock:
            self._working = working
            ended = self.why_ended
        if ended is not None:
            raise CanceledError(ended)

    def _beat_until_done(self) -> None:
        interval_s = max(self.spec.lease_s / BEATS_PER_LEASE, MIN_BEAT_S)
        while not self._done.wait(interval_s):
            self._beat()

    def _beat(self) -> None:
        progress, blocks = self.pulse.taken()
        beat = Beat(worker=self.client.worker, attempt=self.spec.attempt, progress=progress, blocks=blocks)
        try:
            answer = self.client.beat(self.offer, beat)
        except (RunLostError, RefusedError):
            self.stop("lost")
            return
        except ServiceError:
            return  # the service is away: the next beat, or the report, tries again
        self.pulse.delivered(len(blocks))
        if answer.cancel:
            self.stop("canceled")


def overrides_for(spec: RunSpec, case: str) -> GateOverrides:
    """Return what a run's spec asks of the gate for one case."""
    prior = spec.priors.get(case)
    return GateOverrides(
        margin=spec.margins.get(case),
        alpha=spec.alpha,
        max_blocks=spec.max_blocks,
        prior_sd=prior.sd if prior else None,
        prior_df=prior.df if prior else None,
    )
