"""A stand-in GitHub over the recorded repository, and the real client that talks to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bot.demo.github import StandIn
from bot.demo.recorded import Recording, load
from bot.demo.target import TargetRepository, build_target


@pytest.fixture(scope="session")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def target(tmp_path: Path) -> TargetRepository:
    return build_target(tmp_path / "target.git")


@pytest.fixture
def recording(target: TargetRepository) -> Recording:
    return load(target)


@pytest.fixture
def github(target: TargetRepository, recording: Recording) -> Iterator[StandIn]:
    with StandIn(target.path, recording.repository, people=recording.people) as server:
        yield server
