"""A pytest plugin: CPU seconds by road and file, what was not run, a budget that fails the suite.

A road is a folder directly under `tests/`. With CI=true a road that ran nothing, and every
skipped test, is a failure; elsewhere both are named. Tests marked `slow` wait for
`--full`; tests marked `device(name)` run where that backend has one.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Twelve minutes on two cores; an hour with the slow tests.
BUDGET_CPU_SECONDS = 24 * 60
FULL_CPU_SECONDS = 120 * 60
# Files that the table of a whole run names, dearest first
DEAREST = 20
# How many tests wait, by what they wait for
WAITING = pytest.StashKey[Counter[str]]()
# Backends whose device is a package that CI installs
SOFTWARE_DEVICES = frozenset({"vulkan"})


def cpu_seconds() -> float:
    """User and system time of this process and of the children it has waited for."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switch that widens the suite."""
    parser.addoption("--full", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    """Reports are made by the workers and counted by the controller."""
    config.pluginmanager.register(Stopwatch(), "iron-stopwatch")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Roads(config), "iron-roads")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what waits for the switch or for a device; the closing report counts both."""
    waits = {item: reason for item in items if (reason := waits_for(item))}
    if waits:
        config.hook.pytest_deselected(items=list(waits))
        items[:] = [item for item in items if item not in waits]
    config.stash[WAITING] = Counter(waits.values())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the controller what waits; each worker has collected every test."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["waiting"] = dict(session.config.stash.get(WAITING, Counter()))


def waits_for(item: pytest.Item) -> str:
    """What a test waits for: the switch, or a device that is not here; empty when it runs.

    CI installs software devices: there a test of theirs runs, and fails where one is missing.
    """
    if item.get_closest_marker("slow") and not item.config.getoption("--full"):
        return "slow, they wait for --full (make full)"
    installed = SOFTWARE_DEVICES if os.environ.get("CI") == "true" else frozenset[str]()
    wanted = [m.args[0] for m in item.iter_markers("device") if m.args[0] not in installed]
    missing = [name for name in wanted if not ready(name)]
    return f"no {missing[0]} device here" if missing else ""


@cache
def ready(backend: str) -> bool:
    """True when the backend can be used here."""
    from iron.runtime.device import report

    return report(backend).ready


class Stopwatch:
    """Writes the CPU seconds of each phase into its report."""

    def __init__(self) -> None:
        self.last = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Runs after each of set-up, call and tear-down."""
        report = yield
        now = cpu_seconds()
        report.cpu = now - self.last
        self.last = now
        return report


class Roads:
    """Adds up the reports and closes the run with the table of roads."""

    def __init__(self, config: pytest.Config) -> None:
        self.root = Path(config.rootpath) / "tests"
        self.whole = not config.args or config.args == ["tests"]
        self.budget = FULL_CPU_SECONDS if config.getoption("--full") else BUDGET_CPU_SECONDS
        self.cpu: dict[str, float] = defaultdict(float)
        self.files: dict[str, float] = defaultdict(float)
        self.ran: Counter[str] = Counter()
        self.skipped: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self.stash = config.stash

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes the counts of a worker that ends."""
        told = Counter(getattr(node, "workeroutput", {}).get("waiting", {}))
        self.stash[WAITING] = self.stash.get(WAITING, Counter()) | told

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One call for each phase of each test, on the controller."""
        road = road_of(report.nodeid)
        spent = getattr(report, "cpu", 0.0)
        self.cpu[road] += spent
        self.files[report.nodeid.split("::")[0]] += spent
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected"
            self.skipped.append((report.nodeid, reason))
        elif report.when == "call":
            self.ran[road] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turns a run that is over budget or incomplete into a failure."""
        self.faults = self.judge(os.environ.get("CI") == "true")
        if self.faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def judge(self, strict: bool) -> list[str]:
        """What is wrong with the run as a whole."""
        faults = []
        total = sum(self.cpu.values())
        if total > self.budget:
            faults.append(f"{total:.0f} CPU seconds are over the budget of {self.budget}")
        if strict:
            faults += [f"road {name} did not run" for name in self.idle()]
            faults += [f"skipped: {node}: {reason}" for node, reason in self.skipped]
        return faults

    def idle(self) -> list[str]:
        """Roads on disk that ran nothing although the whole suite was asked for."""
        if not self.whole or not self.root.is_dir():
            return []
        roads = {road_of(f"tests/{p.relative_to(self.root)}") for p in tests_under(self.root)}
        return sorted(roads - set(self.ran))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table, above pytest's closing line."""
        out = terminalreporter
        out.section("roads")
        for road in sorted(self.cpu, key=lambda r: -self.cpu[r]):
            out.line(f"{road:12} {self.ran[road]:6} tests {self.cpu[road]:8.1f} CPU s")
        out.line(
            f"{'total':12} {sum(self.ran.values()):6} tests {sum(self.cpu.values()):8.1f} CPU s"
        )
        dearest = sorted(self.files.items(), key=lambda pair: -pair[1])[:DEAREST]
        for file, spent in dearest if self.whole else ():
            out.line(f"{spent:8.1f} CPU s {file}")
        for name in self.idle():
            out.line(f"not run: road {name}")
        for reason, count in self.stash.get(WAITING, Counter()).items():
            out.line(f"not run: {count} tests: {reason}")
        for reason, count in Counter(reason for _, reason in self.skipped).items():
            out.line(f"not run: {count} tests: {reason}")
        for fault in self.faults:
            out.line(f"FAILED {fault}", red=True)


def tests_under(root: Path) -> list[Path]:
    """The test files below `root`."""
    return sorted(root.rglob("test_*.py"))


def road_of(nodeid: str) -> str:
    """`tests/unit/ir/test_text.py::test_x` lies on the road `unit`."""
    parts = nodeid.split("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "tests"
