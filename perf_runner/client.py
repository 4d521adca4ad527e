"""The runner's side of the HTTP protocol: polls, claims, beats, fetches the source, reports."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perf_runner.models import Machine
from perf_runner.protocol import (
    MAX_BUNDLE_BYTES,
    POLL_PATH,
    RUN_PATH,
    Beat,
    BeatAnswer,
    ClaimRequest,
    Offer,
    PollRequest,
    Report,
    RunSpec,
)

Answer = TypeVar("Answer", bound=BaseModel)
TIMEOUT_S = 30.0
TRIES = 5
FIRST_PAUSE_S = 0.5
UNAUTHORISED, CONFLICT, NO_CONTENT = 401, 409, 204


class ServiceError(RuntimeError):
    """The service cannot be reached, or answers what the protocol does not know."""


class RefusedError(ServiceError):
    """The service does not accept the key or token."""


class RunLostError(ServiceError):
    """The run is another worker's by now, over, or unknown: nothing more is to be sent for it."""


class ServiceClient:
    """One worker's connection to one service. `pause_s` scales the waits between tries."""

    def __init__(self, service_url: str, lane_key: str, worker: str, pause_s: float = FIRST_PAUSE_S) -> None:
        self.worker = worker
        self._lane_key = lane_key
        self._pause_s = pause_s
        self._http = httpx.Client(base_url=service_url, timeout=TIMEOUT_S, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def poll(self, queues: tuple[str, ...], machine: Machine) -> Offer | None:
        """Return a run that waits on one of `queues`, None when none does."""
        body = PollRequest(worker=self.worker, queues=queues, machine=machine)
        answer = self._post(POLL_PATH, self._lane_key, body.model_dump_json(), tries=1)
        return None if answer.status_code == NO_CONTENT else parsed(Offer, answer)

    def claim(self, offer: Offer, machine: Machine) -> RunSpec:
        """Take a run; RunLostError when somebody else has it or it is over."""
        body = ClaimRequest(worker=self.worker, machine=machine)
        path = f"{RUN_PATH}/{offer.run_id}/claim"
        return parsed(RunSpec, self._post(path, offer.token, body.model_dump_json(), tries=1))

    def beat(self, offer: Offer, beat: Beat) -> BeatAnswer:
        """Say that the run is alive; RunLostError when it is not this worker's any more."""
        path = f"{RUN_PATH}/{offer.run_id}/beat"
        return parsed(BeatAnswer, self._post(path, offer.token, beat.model_dump_json(), tries=1))

    def report(self, offer: Offer, report: Report) -> None:
        """Hand in the end of a run, trying again while the service is down."""
        path = f"{RUN_PATH}/{offer.run_id}/report"
        self._post(path, offer.token, report.model_dump_json(), tries=TRIES)

    def bundle(self, offer: Offer, target: Path) -> None:
        """Write the run's git bundle to `target`; ServiceError when it is larger than 2 GiB."""
        for attempt in range(TRIES):
            try:
                return self._download(offer, target)
            except httpx.TransportError as error:
                failed = error
            time.sleep(self._pause_s * 2**attempt)
        raise ServiceError(f"the source could not be fetched: {describe(failed)}")

    def _download(self, offer: Offer, target: Path) -> None:
        path = f"{RUN_PATH}/{offer.run_id}/bundle"
        with self._http.stream("GET", path, headers=bearer(offer.token)) as answer:
            check(answer)
            size = 0
            with target.open("wb") as file:
                for chunk in answer.iter_bytes():
                    size += len(chunk)
                    if size > MAX_BUNDLE_BYTES:
                        raise ServiceError(f"the source is larger than {MAX_BUNDLE_BYTES // 1024**3} GiB")
                    file.write(chunk)

    def _post(self, path: str, token: str, body: str, tries: int) -> httpx.Response:
        headers = bearer(token) | {"Content-Type": "application/json"}
        said = ""
        for attempt in range(tries):
            if attempt:
                time.sleep(self._pause_s * 2**attempt)
            try:
                answer = self._http.post(path, content=body, headers=headers)
            except httpx.TransportError as error:
                said = describe(error)
                continue
            if answer.status_code < 500:
                check(answer)
                return answer
            said = f"it answers {answer.status_code}"
        raise ServiceError(f"the service at {self._http.base_url} does not answer: {said}")


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a key or token."""
    return {"Authorization": f"Bearer {token}"}


def check(answer: httpx.Response) -> None:
    """Raise what an answer's status means; return for one that is good."""
    if answer.status_code == UNAUTHORISED:
        raise RefusedError("the service refuses this key: check PRGATE_LANE_KEY and the clock")
    if answer.status_code in (CONFLICT, 404, 410):
        raise RunLostError("the run is another worker's, or over")
    if answer.status_code >= 300:
        raise ServiceError(f"the service answers {answer.status_code}")


def parsed(model: type[Answer], answer: httpx.Response) -> Answer:
    """Return an answer's body as `model`; ServiceError when it is something else."""
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ServiceError(f"the service's answer is not understood: {place}: {problem['msg']}") from None


def describe(error: httpx.TransportError) -> str:
    """Return a transport error in words."""
    return str(error) or type(error).__name__
