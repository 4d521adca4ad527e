"""What logs said, each read once: kept, or fetched within what one verdict may read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from bot.ci.failures import Reading
from bot.ci.history import History
from bot.ci.logs import read_job
from bot.ci.logstore import LogStore
from bot.ci.memory import Seen
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import Provider, Sighting
from bot.ci.snapshot import Job

MOST_LOGS = 80


class Shelf:
    """Logs and readings for one snapshot; what is learned is kept together, at the end."""

    def __init__(
        self, providers: Mapping[str, Provider], fetcher: Fetcher, logs: LogStore, history: History
    ) -> None:
        self.providers = providers
        self.fetcher = fetcher
        self.logs = logs
        self.history = history
        self.readings: dict[str, Reading] = {}
        self._read = 0
        self._seen: dict[str, Seen] = {}

    def add(self, found: Iterable[Sighting], committed_at: datetime | None = None) -> None:
        """Keep that these jobs were seen."""
        for one in found:
            self._seen[one.job.key] = Seen(one, self.readings.get(one.job.key), committed_at)

    def recall(self, found: Iterable[Sighting]) -> None:
        """Look up what the logs of these jobs said."""
        new = [one.job for one in found if one.job.is_failure and one.job.key not in self.readings]
        with self.history.past() as past:
            self.readings |= past.readings(new)

    def keep(self) -> None:
        """Write all of it down."""
        self.history.remember(self._seen.values())

    def whole(self, found: Sequence[Sighting]) -> Iterator[Job]:
        """Yield the head's own jobs: red ones with their logs, whether these were read before or not."""
        self.recall(found)
        for one in found:
            kept = self.logs.get(one.job) if one.job.key in self.readings else None
            if kept is not None:
                yield one.job.model_copy(update={"log": kept})
            else:
                yield self._with_log(one) if one.job.is_failure else one.job

    def with_logs(self, found: Iterable[Sighting], fetch: bool = True) -> Iterator[Job]:
        """Yield jobs; red ones whose log was never read come with it, unless nothing shall be fetched."""
        jobs = list(found)
        self.recall(jobs)
        for one in jobs:
            unread = one.job.is_failure and one.job.key not in self.readings
            yield self._with_log(one) if unread and fetch else one.job

    def _with_log(self, one: Sighting) -> Job:
        """Return one job with its log and report."""
        self._read += 1
        if self._read > MOST_LOGS:
            self.fetcher.note(f"more than {MOST_LOGS} red jobs: the logs of the others were not read")
            return one.job
        provider = self.providers.get(one.job.provider or "")
        if provider is None:
            return one.job
        job = with_log(one, provider, self.logs)
        if job.log is not None or job.junit is not None:
            before = self._seen.get(job.key)
            self.readings[job.key] = read_job(job)
            self._seen[job.key] = Seen(one, self.readings[job.key], before.committed_at if before else None)
        return job


def with_log(one: Sighting, provider: Provider, logs: LogStore) -> Job:
    """Return a job with its log, which is kept, and its report; each None where there is none to be had."""
    text = logs.get(one.job)
    if text is None:
        text = provider.log(one)
        if text is not None:
            logs.put(one.job, text)
    return one.job.model_copy(update={"log": text, "junit": provider.junit(one)})
