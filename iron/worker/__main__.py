"""`python -m iron.worker BACKEND MEMORY [PATH ...]`: a worker on its standard streams."""

import sys

from iron.worker.garbage import seldom_collected
from iron.worker.serve import serve
from iron.worker.tasks import handler, on_backend
from iron.worker.timing import Timing


def main() -> None:
    """Serves one backend; packages are looked for in the paths first."""
    backend, memory, *paths = sys.argv[1:]
    sys.path[:0] = paths
    seldom_collected()
    serve(handler(on_backend(backend), Timing(backend)), int(memory))


main()
