"""Stops set-up with one clear line when Python is too old or cannot make environments."""

import sys


def main() -> int:
    """Exit status 0 when this interpreter can host Iron, 2 with the reason otherwise."""
    if sys.version_info < (3, 11):  # noqa: UP036 - runs before anything is installed
        print(f"Iron needs Python 3.11 or later; python3 is {sys.version.split()[0]}.")
        return 2
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        print("python3 has no ensurepip; on Debian and Ubuntu: apt install python3-venv")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
