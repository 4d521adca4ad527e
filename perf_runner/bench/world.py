"""The model, its paths and its identity for one run: real size on a GPU, small on a CPU."""

import hashlib
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from perf_runner.targets.qwen_image_dit import peer
from perf_runner.targets.qwen_image_dit.config import REAL, SMALL, DitConfig, Workload, digest
from perf_runner.targets.qwen_image_dit.denoise import SCHEDULER, new_request, schedule
from perf_runner.targets.qwen_image_dit.model import build_model
from perf_runner.targets.qwen_image_dit.paths import Paths

MODEL_SEED = 0
PACKAGES = ("torch", "triton", "diffusers", "numpy", "transformers", "vllm-omni")


@dataclass(frozen=True)
class World:
    """What all tables of one run share."""

    config: DitConfig
    device: torch.device
    model: Any
    paths: Paths


def open_world(size: str = "auto") -> World:
    """Return the world of a size: `real`, `small`, or by the machine. ValueError where the GPU is missing."""
    cuda = torch.cuda.is_available()
    chosen = ("real" if cuda else "small") if size == "auto" else size
    if chosen not in ("real", "small"):
        raise ValueError(f"the size must be auto, real or small, not {size!r}")
    if chosen == "real" and not cuda:
        raise ValueError("the real size needs a CUDA device with 64 GB; use --size small here")
    config = REAL if chosen == "real" else SMALL
    device = torch.device("cuda" if cuda else "cpu")
    model = build_model(config, MODEL_SEED, device, torch.bfloat16)
    return World(config, device, model, Paths(model, config, MODEL_SEED))


def attention_backend(device: torch.device) -> str:
    """Return the kernel that scaled_dot_product_attention resolves to for the block's strided views."""
    if device.type != "cuda":
        return "sdpa-cpu"
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    qkv = torch.randn((1, 1152, 3, 24, 128), device=device, dtype=torch.bfloat16)
    views = [x.transpose(1, 2) for x in qkv.unbind(2)]
    torch.nn.functional.scaled_dot_product_attention(*views)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        torch.nn.functional.scaled_dot_product_attention(*views)
        torch.cuda.synchronize()
    names = [event.name for event in profiler.events() if event.device_type == DeviceType.CUDA]
    return ", ".join(name[:60] for name in names if "emset" not in name) or "unknown"


def workload_identity(world: World, work: Workload) -> dict[str, Any]:
    """Return all that fixes the work: two runs with equal identities did the same."""
    request = new_request(world.config, work, torch.device("cpu"))
    sigmas = schedule(work.image_tokens, work.steps)
    return {
        "model": world.config.name,
        "model_config_hash": world.config.digest(),
        "weights": f"normal(0, 0.02), seed {MODEL_SEED}",
        "embedding_hash": output_hash(torch.cat((request.positive, request.negative))),
        "width": work.width,
        "height": work.height,
        "steps": work.steps,
        "text_tokens": work.text_tokens,
        "scheduler": SCHEDULER,
        "sigmas_hash": digest([round(sigma, 9) for sigma in sigmas]),
        "guidance": work.true_cfg_scale,
        "task": "text_to_image",
        "dtype": work.dtype,
        "seed": work.seed,
    }


def environment(world: World) -> dict[str, Any]:
    """Return hardware, versions, attention backend and topology."""
    from perf_runner.machine import fingerprint

    machine = fingerprint(probe=False)
    return {
        "hardware": machine.gpu_name or machine.cpu_model,
        "driver": machine.gpu_driver,
        "cpu": machine.cpu_model,
        "cpu_cores": machine.cpu_cores,
        "backend": attention_backend(world.device),
        "topology": "1 device",
        "dtype": "bfloat16",
        "task": "text_to_image",
        "versions": {"python": platform.python_version()} | installed(),
    }


def installed() -> dict[str, str]:
    """Return the versions of the packages that matter; an absent one is `not installed`."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    named = peer.find_version()
    if named is not None:
        found["vllm-omni"] = named
    if torch.version.cuda:
        found["cuda"] = str(torch.version.cuda)
    return found


def output_hash(value: torch.Tensor) -> str:
    """Return a SHA-256 of a tensor's bytes."""
    raw = value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(raw).hexdigest()[:32]
