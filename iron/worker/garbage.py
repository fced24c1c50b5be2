"""How often a process that compiles many kernels looks for garbage."""

import gc

# Containers made before the young, and collections before each older generation.
SELDOM = (100_000, 20, 10)


def seldom_collected() -> None:
    """For processes that keep what they compile, millions of objects.

    With Python's own numbers a fifth of their time goes by looking through them again and again.
    """
    gc.set_threshold(*SELDOM)
