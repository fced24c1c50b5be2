"""The standard library of kernels: one folder a family, one file an op, found by discovery."""
