"""Checks of kernels against their oracles: cases, bounds, power of a case, mutations."""
