"""The service's side of the runner lane's protocol (`perf_runner.protocol`).

A worker holds a lane key to ask with and a token for one attempt of one run, nothing else. What it sends is
untrusted: bounded, parsed into frozen models, stored as data.
"""

import hmac
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from bot import metrics, mirror, runs, standing
from bot.db.engine import Sessions
from bot.db.models import Repository, Run, RunState
from bot.errors import PayloadRejected, one_line
from bot.log import bound, get_logger
from bot.settings import Settings, secret_list
from bot.webhook import read_body
from perf_runner.models import Frozen
from perf_runner.protocol import (
    MAX_BEAT_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_REPORT_BYTES,
    POLL_PATH,
    RUN_PATH,
    BeatAnswer,
    ClaimRequest,
    PollRequest,
    TokenError,
    bounded,
    parse_beat,
    parse_report,
    verify_token,
)

SMALL_BODY = 256 * 1024
LOST = "this attempt of the run is over: it was taken, finished or given to another worker"

log = get_logger(__name__)
Model = TypeVar("Model", bound=Frozen)
# Returns the token for fetching a repository's commits; None where none is needed.
FetchToken = Callable[[Repository], str | None]


class RunnerApi:
    """Answers the runner lane. Every method raises PayloadRejected for what it refuses."""

    def __init__(self, sessions: Sessions, settings: Settings, fetch_token: FetchToken) -> None:
        self._sessions = sessions
        self._settings = settings
        self._fetch_token = fetch_token
        self._lane_keys = secret_list(settings.lane_keys)

    async def poll(self, request: Request) -> Response:
        """Offer the oldest run of the worker's queues: 200, or 204 where none waits."""
        given = bearer(request).encode()
        if not any(hmac.compare_digest(given, key.encode()) for key in self._lane_keys):
            raise PayloadRejected(401, "the lane key is missing or wrong")
        asked = read(PollRequest, await read_body(request, SMALL_BODY), SMALL_BODY)
        await run_in_threadpool(
            standing.see_worker, self._sessions, asked.worker, asked.machine, asked.queues
        )
        offered = await run_in_threadpool(runs.offer, self._sessions, asked.queues, self._settings)
        return answer(offered) if offered else Response(status_code=204)

    async def claim(self, run_id: str, request: Request) -> Response:
        """Give a run to the worker: 200 with all it must know, 409 where it is taken or over."""
        hold = self._hold(run_id, request)
        asked = read(ClaimRequest, await read_body(request, SMALL_BODY), SMALL_BODY)
        spec = await run_in_threadpool(
            runs.claim, self._sessions, hold, asked.worker, asked.machine, self._settings
        )
        if spec is None:
            raise PayloadRejected(409, LOST)
        await run_in_threadpool(
            standing.see_worker, self._sessions, asked.worker, asked.machine, None, run_id
        )
        with bound(run=run_id):
            log.info("run claimed", worker=asked.worker, attempt=hold.attempt)
        return answer(spec)

    async def beat(self, run_id: str, request: Request) -> Response:
        """Extend the run's lease and keep its new blocks; says whether to stop. 409 where it was lost."""
        hold = self._hold(run_id, request)
        said = parsed(parse_beat, await read_body(request, MAX_BEAT_BYTES))
        progress = said.progress.model_dump(mode="json") if said.progress else None
        cancel = await run_in_threadpool(
            runs.beat, self._sessions, hold, self._settings.lease_s, progress, said.blocks
        )
        if cancel is None:
            raise PayloadRejected(409, LOST)
        await run_in_threadpool(standing.hear_worker, self._sessions, said.worker, run_id)
        return answer(BeatAnswer(cancel=cancel))

    async def report(self, run_id: str, request: Request) -> Response:
        """Store how the run ended: 204. 409 where it was lost."""
        hold = self._hold(run_id, request)
        said = parsed(parse_report, await read_body(request, MAX_REPORT_BYTES))
        if not await run_in_threadpool(runs.report, self._sessions, hold, said):
            raise PayloadRejected(409, LOST)
        await run_in_threadpool(standing.hear_worker, self._sessions, said.worker, None)
        with bound(run=run_id):
            log.info("run reported", outcome=said.outcome, attempt=hold.attempt)
        return Response(status_code=204)

    async def bundle(self, run_id: str, request: Request) -> Response:
        """Send the commits of the run's arms as a git bundle."""
        hold = self._hold(run_id, request)
        path = await run_in_threadpool(self._make_bundle, hold)
        return FileResponse(path, media_type="application/x-git-bundle")

    def _hold(self, run_id: str, request: Request) -> runs.Hold:
        """Return the attempt that the request's token is good for; 401 where it is for none of this run."""
        try:
            token = verify_token(
                self._settings.service_key.get_secret_value(), bearer(request), datetime.now(UTC)
            )
        except TokenError as error:
            raise PayloadRejected(401, str(error)) from None
        if token.run_id != run_id:
            raise PayloadRejected(401, "the run token is for another run")
        return runs.Hold(token.run_id, token.attempt)

    def _make_bundle(self, hold: runs.Hold) -> Path:
        with self._sessions() as session:
            run = session.get(Run, hold.run_id)
            repository = session.get(Repository, run.repo_id) if run else None
        if run is None or repository is None or (run.attempt, run.state) != (hold.attempt, RunState.RUNNING):
            raise PayloadRejected(409, LOST)
        shas = list(dict.fromkeys(str(arm["sha"]) for arm in run.spec.get("arms", ())))
        try:
            path = mirror.bundle(self._mirrors, self._source(repository), shas, run.number)
        except Exception as error:
            log.warning("no bundle", run=run.id, error=one_line(error))
            raise PayloadRejected(502, "the run's commits could not be fetched") from None
        if path.stat().st_size > MAX_BUNDLE_BYTES:
            raise PayloadRejected(413, "the repository is too large for a bundle")
        return path

    @property
    def _mirrors(self) -> Path:
        return self._settings.data_dir.resolve() / "mirrors"

    def _source(self, repository: Repository) -> mirror.Source:
        url = self._settings.clone_url.format(
            web=self._settings.github_web_url, full_name=repository.full_name
        )
        return mirror.Source(repository.id, url, self._fetch_token(repository))


def bearer(request: Request) -> str:
    """Return the request's bearer token; empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def read(model: type[Model], body: bytes, limit: int) -> Model:
    """Return a small body as `model`; PayloadRejected 400 for another shape."""
    return parsed(lambda raw: bounded(model, raw, limit), body)


def parsed(parse: Callable[[bytes], Model], body: bytes) -> Model:
    """Return what `parse` makes of a body; PayloadRejected 400 for what it refuses."""
    try:
        return parse(body)
    except ValueError as error:
        raise PayloadRejected(400, " ".join(str(error).split())[:300]) from None


def answer(value: BaseModel) -> Response:
    """Return a model as JSON."""
    return JSONResponse(value.model_dump(mode="json"))


class CountedRoute(APIRoute):
    """A route whose answers are counted by their status."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the counting around it."""
        handle = super().get_route_handler()
        name = self.path_format.rpartition("/")[2]

        async def counted(request: Request) -> Response:
            try:
                response = await handle(request)
            except PayloadRejected as refused:
                metrics.RUNNER_REQUESTS.labels(name, str(refused.status)).inc()
                raise
            metrics.RUNNER_REQUESTS.labels(name, str(response.status_code)).inc()
            return response

        return counted


def router(api: RunnerApi) -> APIRouter:
    """Return the routes of the runner lane."""
    made = APIRouter(tags=["runner lane"], route_class=CountedRoute)

    def add(path: str, method: str, does: Callable[..., object]) -> None:
        made.add_api_route(path, does, methods=[method], response_class=Response)

    add(POLL_PATH, "POST", api.poll)
    add(f"{RUN_PATH}/{{run_id}}/claim", "POST", api.claim)
    add(f"{RUN_PATH}/{{run_id}}/beat", "POST", api.beat)
    add(f"{RUN_PATH}/{{run_id}}/report", "POST", api.report)
    add(f"{RUN_PATH}/{{run_id}}/bundle", "GET", api.bundle)
    return made
