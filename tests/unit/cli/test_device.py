"""`iron device` reports every backend, the ready ones and those that lack something."""

import json

import pytest

from iron.cli.app import run
from iron.errors import error
from iron.runtime import device
from iron.runtime.driver import BACKENDS


def test_every_backend_is_listed(capsys: pytest.CaptureFixture[str]):
    assert run(["device"]) == 0
    text = capsys.readouterr().out
    for name in BACKENDS:
        assert f"\n{name} " in f"\n{text}"
    assert "ready" in text


def test_json_has_the_limits(capsys: pytest.CaptureFixture[str]):
    assert run(["device", "--json"]) == 0
    found = {b["name"]: b for b in json.loads(capsys.readouterr().out)["backends"]}
    assert list(found) == list(BACKENDS)
    assert found["interp"]["ready"]
    assert found["interp"]["target"]["simd"] == 32
    assert found["interp"]["missing"] == ""


@pytest.mark.parametrize(
    ("fault", "missing", "install"),
    [
        (error("E0603", "this CPU lacks avx2", help="use another"), "lacks avx2", "use another"),
        (ModuleNotFoundError("no llvmlite", name="llvmlite"), "no module named llvmlite", "pip"),
    ],
)
def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    missing: str,
    install: str,
):
    opened = device.driver

    def refuse(name: str):
        if name == "cpu":
            raise fault
        return opened(name)

    monkeypatch.setattr(device, "driver", refuse)
    assert run(["device"]) == 0
    text = capsys.readouterr().out
    assert "cpu     not available" in text
    assert missing in text
    assert install in text
    assert run(["device", "--json"]) == 0
    cpu = json.loads(capsys.readouterr().out)["backends"][1]
    assert not cpu["ready"]
    assert cpu["target"] is None


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]):
    assert run(["device", "--help"]) == 0
    assert "Example:" in capsys.readouterr().out
