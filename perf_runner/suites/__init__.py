"""Suites of cases in the benchmark schema of vllm-omni."""
