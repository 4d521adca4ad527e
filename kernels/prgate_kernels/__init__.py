"""The kernels under test: one operator a file, its eager reference beside it."""
