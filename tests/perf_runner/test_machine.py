"""The fingerprint of a host, and what its GPUs say."""

import pytest

from perf_runner.machine import (
    cpu_model,
    fingerprint,
    gpu_problems,
    host_class,
    machine_notes,
    memory_gb,
    noise_probe_pct,
    parse_gpu_users,
    parse_gpus,
    visible_gpus,
)

QUIET = "0, NVIDIA H200, 570.133.20, 1980, 1980, 0x0000000000000000, 41, 97, GPU-aaaa\n"
HOT = "1, NVIDIA H200, 570.133.20, 1200, 1980, 0x0000000000000060, 88, 99, GPU-bbbb\n"
IDLE = "2, NVIDIA H200, 570.133.20, 345, 1980, 0x0000000000000001, 30, 0, GPU-cccc\n"


def test_the_fingerprint_of_this_host_is_whole():
    machine = fingerprint()
    assert machine.cpu_cores >= 1
    assert machine.memory_gb > 0.1
    assert machine.noise_probe_pct is not None
    assert machine.host_class
    assert machine.versions["python"].startswith("3.")
    assert fingerprint(probe=False).noise_probe_pct is None


def test_two_hosts_of_one_kind_share_a_class_and_a_gpu_goes_before_the_cpu():
    assert host_class("Intel(R) Xeon(R) Platinum", 8, []) == "8c-intel-r-xeon-r-platinum"
    assert (
        host_class("Intel", 8, ["NVIDIA H200"]) == host_class("AMD", 64, ["NVIDIA H200"]) == "1x-nvidia-h200"
    )
    assert host_class("Intel", 8, ["NVIDIA H200"] * 2) == "2x-nvidia-h200"
    assert host_class("", 2, []).startswith("2c-")


def test_a_throttled_gpu_makes_no_measurement_and_an_idle_one_does():
    quiet, hot, idle = parse_gpus(QUIET + HOT + IDLE)
    assert gpu_problems([quiet, idle], []) == ()
    assert gpu_problems([quiet, hot], []) == ("GPU 1 was throttled (software thermal, hardware thermal)",)
    assert gpu_problems([quiet], [4711]) == ("1 foreign process(es) computed on the GPU",)
    assert (quiet.clock_mhz, quiet.max_clock_mhz, quiet.temperature_c) == (1980, 1980, 41)


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found\n", "garbage, with, commas\n", "0, x\n", "Failed to initialize NVML\n"],
)
def test_a_host_without_a_working_driver_has_no_gpus(text):
    assert parse_gpus(text) == ()


def test_fields_that_a_gpu_does_not_report_are_none():
    (gpu,) = parse_gpus("0, Tesla T4, 535.1, [N/A], [N/A], [Not Supported], 50, [N/A], GPU-d\n")
    assert (gpu.clock_mhz, gpu.throttle_bits, gpu.temperature_c) == (None, 0, 50)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, [0, 1, 2]),
        ("1", [1]),
        ("2,0", [0, 2]),
        ("GPU-bb", [1]),
        ("", []),
        ("7", []),
        ("MIG-4711", [0, 1, 2]),
    ],
)
def test_only_the_gpus_that_the_worker_may_use_are_watched(named, expected):
    found = visible_gpus(parse_gpus(QUIET + HOT + IDLE), named)
    assert [gpu.index for gpu in found] == expected


def test_processes_are_told_by_the_gpu_they_use():
    assert parse_gpu_users("4711, GPU-aaaa\n12, GPU-bbbb\n\nnonsense\n") == (
        (4711, "GPU-aaaa"),
        (12, "GPU-bbbb"),
    )


def test_a_busy_host_and_a_saving_governor_are_said():
    assert machine_notes("performance", 0.1, 2, []) == ()
    busy, saving = machine_notes("powersave", 9.0, 2, parse_gpus(QUIET))
    assert "load 9.0 on 2 cores" in busy
    assert "powersave" in saving
    assert machine_notes(None, 0.0, 2, [], 20.0) == ()
    assert "varied by 800 %" in machine_notes(None, 0.0, 2, [], 800.0)[0]
    assert "throttled" in machine_notes(None, 0.0, 2, parse_gpus(HOT))[0]


def test_system_files_are_read_whatever_they_hold():
    assert cpu_model("processor : 0\nmodel name\t: AMD  EPYC 9654\n") == "AMD EPYC 9654"
    assert cpu_model("") == ""
    assert memory_gb("MemTotal:       1000000 kB\n") == pytest.approx(1.024)
    assert memory_gb("") == 0.0


def test_the_noise_probe_measures_something():
    assert 0 < noise_probe_pct() < 10_000
