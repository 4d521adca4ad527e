"""vllm-omni's published fused operator, loaded from its wheel for comparison: never copied into here."""

import importlib.util
import os
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

MEMBER = "vllm_omni/diffusion/layers/fused_qk_norm_rope.py"
VARIABLE = "PRGATE_PEER_VLLM_OMNI"


def find_source() -> Path | None:
    """Return the operator's file: of the installed wheel, else under the folder or in the wheel that the
    environment names; None where the peer is not installed."""
    named = os.environ.get(VARIABLE, "").strip()
    if named.endswith(".whl") and Path(named).is_file():
        with zipfile.ZipFile(named) as wheel:
            return Path(wheel.extract(MEMBER, mkdtemp(prefix="prgate-peer-")))
    if named and (Path(named) / MEMBER).is_file():
        return Path(named) / MEMBER
    try:
        path = Path(str(distribution("vllm-omni").locate_file(MEMBER)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def find_version() -> str | None:
    """Return the peer's version as installed, or as its wheel's name says; None where it is not known."""
    name = Path(os.environ.get(VARIABLE, "").strip()).name
    if name.endswith(".whl"):
        return name.split("-")[1]
    try:
        return distribution("vllm-omni").version
    except PackageNotFoundError:
        return None


def load() -> Callable[..., Any] | None:
    """Return the operator, or None where the peer is not installed or Triton is missing."""
    source = find_source()
    if source is None or importlib.util.find_spec("triton") is None:
        return None
    added = {name: module for name, module in stand_ins().items() if name not in sys.modules}
    sys.modules.update(added)
    try:
        spec = importlib.util.spec_from_file_location("prgate_peer_vllm_omni", source)
        if spec is None or spec.loader is None:
            return None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        operator: Callable[..., Any] = module.fused_qk_norm_rope
        return operator
    finally:
        for name in added:
            del sys.modules[name]


def stand_ins() -> dict[str, ModuleType]:
    """Return the few names that the file imports from vllm and vllm_omni."""
    import triton
    import triton.language as tl

    cuda = SimpleNamespace(is_cuda=torch.cuda.is_available, is_npu=lambda: False)
    envs = SimpleNamespace(VLLM_OMNI_FUSED_QK_NORM_ROPE_MIN_TOKENS=None)
    contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.platforms": {"current_platform": cuda},
        "vllm.triton_utils": {"HAS_TRITON": True, "tl": tl, "triton": triton},
        "vllm.utils": {},
        "vllm.utils.torch_utils": {"direct_register_custom_op": register},
        "vllm_omni": {},
        "vllm_omni.diffusion": {"envs": envs},
        "vllm_omni.platforms": {"current_omni_platform": cuda},
    }
    modules = {}
    for name, values in contents.items():
        modules[name] = ModuleType(name)
        vars(modules[name]).update(values)
    return modules


def register(
    op_name: str,
    op_func: Callable[..., Any],
    mutates_args: list[str],
    fake_impl: Callable[..., Any],
    target_lib: Any,
) -> None:
    """Register a custom operator as vllm does."""
    target_lib.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args))
    target_lib.impl(op_name, op_func, dispatch_key="CUDA")
    target_lib._register_fake(op_name, fake_impl)
