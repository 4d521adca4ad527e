"""The broker as deploy/redis sets it up: a runner lane hears its own doorbell and reaches nothing else."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError

from bot.celery_app import QUEUE, Bell, make_celery, make_lane
from bot.demo.redis_child import find_redis_server
from bot.settings import Settings, load_settings
from perf_runner.protocol import RUN_TASK
from tests.bot.service.world import free_port, wait_until

ROOT = Path(__file__).parents[2]
PASSWORDS = {"SERVICE": "service-password", "LANE": "lane-password"}


@dataclass
class Broker:
    """A Redis with the configuration and the users of deploy/redis, started as the compose file does."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        users = (ROOT / "deploy/redis/users.acl.example").read_text()
        for name, password in PASSWORDS.items():
            digest = hashlib.sha256(password.encode()).hexdigest()
            users = users.replace(f"SHA256-OF-THE-{name}-PASSWORD", digest)
        (self.folder / "users.acl").write_text(users)
        command = [
            find_redis_server(),
            ROOT / "deploy/redis/redis.conf",
            "--aclfile",
            self.folder / "users.acl",
        ]
        told = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("wb") as log:
            self.process = subprocess.Popen([*command, *told], stdout=log, stderr=log)
        try:
            wait_until(self.answers, 30, "for Redis")
        except BaseException:
            self.stop()
            raise

    def answers(self) -> bool:
        try:
            return bool(self.client("prgate", "SERVICE").ping())
        except NoConnection:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def url(self, user: str, password: str) -> str:
        return f"redis://{user}:{PASSWORDS[password]}@127.0.0.1:{self.port}/0"

    def client(self, user: str, password: str) -> "Redis[str]":
        return Redis.from_url(self.url(user, password), decode_responses=True)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("redis"))
    yield made
    made.stop()


@pytest.fixture
def settings(broker: Broker) -> Settings:
    url = broker.url("prgate", "SERVICE")
    return load_settings({"broker_url": url, "broker_prefix": "bot:", "lane_broker_prefix": "lane:"})


@pytest.fixture
def bell(settings: Settings) -> Iterator[Bell]:
    made = Bell(make_celery(settings), make_lane(settings))
    yield made
    made.close()


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """The paths that a lane asks of its service, which has nothing for it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(204 if self.path == "/runner/poll" else 409)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    paths.append(f"http://127.0.0.1:{server.server_port}")
    yield paths
    server.shutdown()
    server.server_close()


@pytest.fixture
def lane(broker: Broker, asked: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real worker of the lane for H200 hosts; it polls so seldom that only the doorbell can wake it."""
    told = {
        "PRGATE_SERVICE_URL": asked.pop(),
        "PRGATE_LANE_KEY": "k" * 20,
        "PRGATE_LANE_QUEUES": "runner.h200",
        "PRGATE_LANE_POLL_S": "3600",
        "PRGATE_LANE_BROKER_URL": broker.url("lane", "LANE"),
        "PRGATE_LANE_BROKER_PREFIX": "lane:",
        "PRGATE_WORK_FOLDER": str(tmp_path / "work"),
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
    }
    log = tmp_path / "lane.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "bot", "worker", "--lane", "gpu"]
        process = subprocess.Popen(command, env=told, stdout=output, stderr=output)
    wait_until(lambda: process.poll() is not None or "/runner/poll" in asked, 90, "for the lane's first poll")
    assert process.poll() is None, log.read_text()[-3000:]
    yield process
    process.terminate()
    process.wait(timeout=60)
    assert "NOPERM" not in log.read_text()


def test_a_lane_hears_its_own_doorbell_alone(
    broker: Broker, bell: Bell, lane: subprocess.Popen[bytes], asked: list[str]
) -> None:
    bell.ring([1])
    bell.ring_run(RUN_TASK, "runner.h100", "run-of-another-card", "token")
    bell.ring_run(RUN_TASK, "runner.h200", "run-of-this-card", "token")
    wait_until(lambda: any("run-of-this-card" in path for path in asked), 60, "for the claim")
    assert not any("run-of-another-card" in path for path in asked)
    client = broker.client("prgate", "SERVICE")
    assert client.llen("lane:runner.h100") == 1
    assert bell.waiting() == 1
    wait_until(lambda: client.hlen("lane:unacked") == 0, 60, "for the acknowledgement")
    assert lane.poll() is None


def test_a_killed_lane_gives_its_doorbell_back_to_lanes_only(
    broker: Broker, settings: Settings, bell: Bell
) -> None:
    """With one key for what is unacknowledged, any worker would put anybody's messages back."""
    bell.ring([7])
    app = make_celery(settings)
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get(QUEUE)
        assert message is not None
        client = broker.client("prgate", "SERVICE")
        assert client.hlen("bot:unacked") == 1
        assert client.hlen("lane:unacked") == 0
        message.ack()
        assert client.hlen("bot:unacked") == 0
    app.close()


FORBIDDEN = {
    "read the bot's queue": ("LRANGE", "bot:bot", "0", "-1"),
    "fill the bot's queue": ("LPUSH", "bot:bot", "x"),
    "take what the bot has in hand": ("HGETALL", "bot:unacked"),
    "write outside its prefix": ("SET", "other", "x"),
    "list all keys": ("KEYS", "*"),
    "empty the server": ("FLUSHALL",),
    "read the configuration": ("CONFIG", "GET", "*"),
    "stop it": ("SHUTDOWN",),
    "make users": ("ACL", "SETUSER", "x", "on"),
    "copy the data away": ("REPLICAOF", "127.0.0.1", "1"),
    "reach the bot by a script": ("EVAL", "return redis.call('GET', 'bot:x')", "0"),
    "watch others": ("MONITOR",),
    "end others' connections": ("CLIENT", "KILL", "TYPE", "normal"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_lane_may_not(broker: Broker, what: str) -> None:
    with broker.client("lane", "LANE") as client, pytest.raises(RedisError) as refused:
        client.execute_command(*FORBIDDEN[what])
    assert "permission" in str(refused.value) or "can't access" in str(refused.value)


def test_nobody_comes_in_without_a_password(broker: Broker) -> None:
    with Redis(port=broker.port) as client, pytest.raises(RedisError):
        client.ping()
