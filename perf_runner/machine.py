"""Where it was measured: fingerprint, noise probe, and the state of the GPUs around a block.

Equal `host_class` means that noise priors may be shared; a number from another host is never a baseline.
"""

import csv
import os
import platform
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perf_runner.models import Machine

GPU_FIELDS = (
    "index",
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active",
    "temperature.gpu",
    "utilization.gpu",
    "uuid",
)
# Bits of NVML's clocksThrottleReasons that make a run no measurement: slowdowns by heat or by power brake.
SLOWDOWN_BITS = {
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
VERSIONED = ("torch", "triton", "diffusers", "numpy")
PROBE_ROUNDS = 60
PROBE_STEPS = 20_000
LOADED_PER_CORE = 0.7
NOISY_PCT = 50.0
COMMAND_TIMEOUT_S = 10


@dataclass(frozen=True)
class GpuState:
    """One GPU at one moment: clocks in MHz, temperature in degrees Celsius, NVML's throttle bits."""

    index: int
    name: str
    driver: str
    clock_mhz: float | None
    max_clock_mhz: float | None
    throttle_bits: int
    temperature_c: float | None
    utilization_pct: float | None
    uuid: str = ""

    def slowdowns(self) -> tuple[str, ...]:
        """Return the reasons for which the GPU is slowed down against its will."""
        return tuple(text for bit, text in SLOWDOWN_BITS.items() if self.throttle_bits & bit)


def fingerprint(*, probe: bool = True) -> Machine:
    """Return this host as it stands; the noise probe takes about a third of a second."""
    gpus = read_gpus()
    cores = len(os.sched_getaffinity(0))
    load_1m = os.getloadavg()[0]
    model = cpu_model(read_text("/proc/cpuinfo"))
    noise_pct = noise_probe_pct() if probe else None
    governor = read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None
    return Machine(
        host_class=host_class(model, cores, [gpu.name for gpu in gpus]),
        cpu_model=model,
        cpu_cores=cores,
        memory_gb=round(memory_gb(read_text("/proc/meminfo")), 1),
        gpu_name=gpus[0].name if gpus else None,
        gpu_count=len(gpus),
        gpu_driver=gpus[0].driver if gpus else None,
        operating_system=f"{platform.system()} {platform.release()}",
        versions={"python": platform.python_version()} | installed_versions(VERSIONED),
        governor=governor,
        load_1m=round(load_1m, 2),
        noise_probe_pct=None if noise_pct is None else round(noise_pct, 2),
        notes=machine_notes(governor, load_1m, cores, gpus, noise_pct),
    )


def machine_notes(
    governor: str | None,
    load_1m: float,
    cores: int,
    gpus: Sequence[GpuState],
    noise_pct: float | None = None,
) -> tuple[str, ...]:
    """Return what a reader of a measurement from this host must know."""
    notes = []
    if load_1m > LOADED_PER_CORE * cores:
        notes.append(f"The host was busy: load {load_1m:.1f} on {cores} cores.")
    if noise_pct is not None and noise_pct > NOISY_PCT:
        notes.append(f"The host was noisy: a fixed piece of CPU work varied by {noise_pct:.0f} %.")
    if governor not in (None, "performance"):
        notes.append(f"The CPU governor is {governor}, not performance.")
    for gpu in gpus:
        if gpu.slowdowns():
            notes.append(f"GPU {gpu.index} is throttled: {', '.join(gpu.slowdowns())}.")
    return tuple(notes)


def host_class(model: str, cores: int, gpus: Sequence[str]) -> str:
    """Return the name under which noise priors are shared: the GPUs of a host, else its CPU and cores."""
    words = f"{len(gpus)}x-{gpus[0]}" if gpus else f"{cores}c-{model or platform.machine()}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def cpu_model(cpuinfo: str) -> str:
    """Return the model name in the text of /proc/cpuinfo, empty where it has none."""
    for line in cpuinfo.splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return " ".join(line.partition(":")[2].split())
    return ""


def memory_gb(meminfo: str) -> float:
    """Return the total memory, in units of 10^9 bytes, in the text of /proc/meminfo."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024 / 1e9
    return 0.0


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, without importing them."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def noise_probe_pct() -> float:
    """Return the spread (90th less 10th percentile, in per cent of the median) of fixed CPU work."""
    times = sorted(timed_work() for _ in range(PROBE_ROUNDS))
    low, high = times[PROBE_ROUNDS // 10], times[-1 - PROBE_ROUNDS // 10]
    return (high - low) / statistics.median(times) * 100.0


def timed_work() -> float:
    """Return the seconds that a fixed loop takes now."""
    started = time.perf_counter()
    total = 0
    for step in range(PROBE_STEPS):
        total += step * step
    return time.perf_counter() - started


def read_gpus() -> tuple[GpuState, ...]:
    """Return the state of the NVIDIA GPUs that this process may use; none where nvidia-smi does not work."""
    found = parse_gpus(nvidia_smi(f"--query-gpu={','.join(GPU_FIELDS)}"))
    return visible_gpus(found, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible_gpus(gpus: Sequence[GpuState], named: str | None) -> tuple[GpuState, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names by index or UUID; all where it is not set.

    A name of another kind (a MIG slice) does not say which GPU it is on: then all are returned.
    """
    if named is None:
        return tuple(gpus)
    names = [name.strip() for name in named.split(",") if name.strip()]
    if any(not name.isdigit() and not name.startswith("GPU-") for name in names):
        return tuple(gpus)
    return tuple(gpu for gpu in gpus if any(names_gpu(name, gpu) for name in names))


def names_gpu(name: str, gpu: GpuState) -> bool:
    """Say whether one entry of CUDA_VISIBLE_DEVICES means this GPU; a UUID may be cut short."""
    return int(name) == gpu.index if name.isdigit() else gpu.uuid.startswith(name)


def foreign_processes(gpus: Sequence[GpuState], own: Iterable[int]) -> frozenset[int]:
    """Return the host process ids that compute on one of `gpus` now and are none of `own`."""
    if not gpus:
        return frozenset()
    users = parse_gpu_users(nvidia_smi("--query-compute-apps=pid,gpu_uuid"))
    watched = {gpu.uuid for gpu in gpus}
    return frozenset(pid for pid, uuid in users if uuid in watched) - frozenset(own)


def parse_gpu_users(text: str) -> tuple[tuple[int, str], ...]:
    """Return (process id, GPU's UUID) of each line of nvidia-smi's CSV."""
    rows = [[field.strip() for field in row] for row in csv.reader(text.splitlines())]
    return tuple((int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].isdigit())


def nvidia_smi(query: str) -> str:
    """Return the CSV answer to one query, empty where there is no NVIDIA driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, query, "--format=csv,noheader,nounits"]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout if finished.returncode == 0 else ""


def parse_gpus(text: str) -> tuple[GpuState, ...]:
    """Return the GPUs in nvidia-smi's CSV; lines of another shape are left out, `[N/A]` becomes None."""
    found = []
    for row in csv.reader(text.splitlines()):
        fields = [field.strip() for field in row]
        if len(fields) == len(GPU_FIELDS) and fields[0].isdigit():
            index, name, driver, clock, most, bits, temperature, utilization, uuid = fields
            state = GpuState(
                index=int(index),
                name=name,
                driver=driver,
                clock_mhz=number_or_none(clock),
                max_clock_mhz=number_or_none(most),
                throttle_bits=hex_or_zero(bits),
                temperature_c=number_or_none(temperature),
                utilization_pct=number_or_none(utilization),
                uuid=uuid,
            )
            found.append(state)
    return tuple(found)


def number_or_none(text: str) -> float | None:
    """Return the number in a field, None for `[N/A]` and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def hex_or_zero(text: str) -> int:
    """Return a hexadecimal bit field, 0 where it is not given."""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def gpu_problems(gpus: Sequence[GpuState], foreign: Iterable[int]) -> tuple[str, ...]:
    """Return why a block on these GPUs does not count: a slowdown, or somebody else's process."""
    problems = [
        f"GPU {gpu.index} was throttled ({', '.join(gpu.slowdowns())})" for gpu in gpus if gpu.slowdowns()
    ]
    others = sorted(foreign)
    if others:
        problems.append(f"{len(others)} foreign process(es) computed on the GPU")
    return tuple(problems)


def read_text(path: str) -> str:
    """Return a small system file, empty where it is not readable."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
