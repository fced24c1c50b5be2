"""Iron: a kernel language in Python, its compiler, and a library of inference kernels."""
