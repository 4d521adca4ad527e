"""Runs Triton's kernels on the CPU where there is no GPU: set before Triton is first imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from prgate_kernels import path_log


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def fresh_path_log() -> None:
    path_log.reset()
