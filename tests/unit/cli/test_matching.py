"""Names that nothing has: one message that says which are near."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from iron.cli.app import run
from iron.cli.matching import backend_of, dtypes_of, peers_of, unmatched
from iron.errors import KernelError

BACKENDS = ("interp", "cpu", "vulkan")
WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "dtype": (lambda: dtypes_of("f32, fp16"), "no dtype `fp16`", "did you mean `f16`"),
    "far dtype": (lambda: dtypes_of("half"), "no dtype `half`", "dtypes are bool"),
    "peer": (lambda: peers_of(["nump"]), "no library or peer `nump`", "did you mean `numpy`?"),
    "far peer": (lambda: peers_of(["zzz"]), "no library or peer `zzz`", "libraries are ggml"),
    "backend": (lambda: backend_of("vulcan", "--backend", BACKENDS), "`vulcan`", "`vulkan`?"),
    "far backend": (lambda: backend_of("x", "IRON_BACKENDS", BACKENDS), "IRON_BACKENDS", "are in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_told_with_the_near_ones(name: str) -> None:
    ask, message, advice = WRONG[name]
    with pytest.raises(KernelError) as refused:
        ask()
    told = refused.value.diagnostic
    assert refused.value.id == "E0803"
    assert message in told.message
    assert advice in told.help


def test_right_names_are_taken() -> None:
    assert dtypes_of(" f32,bf16 ") == ("f32", "bf16")
    assert dtypes_of(None) == ()
    assert peers_of(["numpy", "none"]) == ("numpy", "none")
    assert backend_of("cpu", "--backend", BACKENDS) == "cpu"


@pytest.mark.parametrize(
    ("filters", "dtypes", "message", "advice"),
    [
        (["softmx"], None, "no kernel matches `softmx`", "did you mean `softmax`"),
        (["softmx[f32]"], None, "`softmx[f32]`", "did you mean `softmax`"),
        (["softmax"], "u8", "no kernel matches `softmax` in u8", "`iron inspect` names all"),
        (["a", "b"], None, "`a` or `b`", "`iron inspect` names all"),
    ],
)
def test_filters_that_leave_nothing(
    settings: None, filters: list[str], dtypes: str | None, message: str, advice: str
) -> None:
    told = unmatched("kernel", filters, dtypes, "iron inspect").diagnostic
    assert message in told.message
    assert advice in told.help


def test_a_backend_that_is_not_here_is_one_message(
    project: object, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = "cuda" if sys.platform == "darwin" else "metal"
    for command in (["test"], ["bench", "--allow-dirty"]):
        assert run([*command, "-b", absent]) == 1
        shown = capsys.readouterr()
        assert shown.err.count("error[E0603]") == 1
        assert shown.out == ""


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("iron ")
