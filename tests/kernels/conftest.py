"""Runs Triton's kernels on the CPU where there is no GPU, during these tests only."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton and the kernels' modules are first imported
    import prgate_kernels.triton_adaln
    import prgate_kernels.triton_qk_norm_rope  # noqa: F401

    del os.environ["TRITON_INTERPRET"]

from prgate_kernels import path_log


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    path_log.reset()
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")
