"""A CUDA device behind the sandbox, where there is one: `pytest -m gpu tests/perf_runner`."""

import json
from pathlib import Path

import pytest

from perf_runner.sandbox import Launch, find_sandbox
from perf_runner.sandbox_process import run

pytestmark = pytest.mark.gpu
PRODUCT = """\
import json, os, torch
a = torch.randn(2048, 2048, device="cuda", dtype=torch.float32)
b = torch.randn(2048, 2048, device="cuda", dtype=torch.float32)
torch.backends.cuda.matmul.allow_tf32 = False
error = ((a @ b).cpu() - a.cpu() @ b.cpu()).abs().max().item()
print(json.dumps({"device": torch.cuda.get_device_name(), "error": error, "uid": os.getuid()}))
"""


def test_a_matrix_product_runs_on_the_gpu_behind_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text(PRODUCT)
    tmp_path.chmod(0o755)
    sandbox = find_sandbox()
    finished = run(Launch(("python", "product.py"), tmp_path), sandbox)
    assert finished.returncode == 0, finished.reason()
    said = json.loads(finished.stdout)
    assert said["error"] < 1e-2
    assert said["uid"] != 0 or not sandbox.as_root
