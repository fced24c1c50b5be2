"""The list of targets: names, defaults, and what is said about names that are none."""

import pytest

from iron.emit.documents import KINDS
from iron.emit.targets import FAMILIES, destination
from iron.errors import KernelError


def test_every_family_has_a_default_and_all_its_architectures():
    for family in FAMILIES.values():
        default = destination(family.name)
        assert default.architecture == (family.architectures or ("",))[0]
        for architecture in family.architectures:
            found = destination(f"{family.name}:{architecture}")
            assert found.name == f"{family.name}:{architecture}"
            assert found.target.family == ("cpu" if family.name == "cpu" else "gpu")


def test_kinds_and_suffixes_belong_to_one_family():
    kinds = [kind for family in FAMILIES.values() for kind in family.kinds]
    assert len(set(kinds)) == len(kinds)
    assert not set(kinds) & set(KINDS)
    for family in FAMILIES.values():
        suffixes = [s for ends in family.kinds.values() for s in ends]
        assert len(set(suffixes)) == len(suffixes)
        assert family.text.startswith(".")


@pytest.mark.parametrize("name", ["tpu", "cuda:sm_1", "cpu:", "", "cuda:sm_90a:x"])
def test_an_unknown_target_is_named_with_those_there_are(name: str):
    if name == "cpu:":
        assert destination(name) == destination("cpu")
        return
    with pytest.raises(KernelError) as refused:
        destination(name)
    assert refused.value.id == "E0803"
    assert ("architectures are" if name.startswith("cuda") else "targets are") in str(refused.value)
