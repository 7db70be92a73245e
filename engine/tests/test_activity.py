"""Records of kernels and calls: what is said where a package is missing."""

import sys

import pytest

from hostcuda.errors import EngineError
from hostcuda.gpu import cupti

pytestmark = pytest.mark.core("what a missing package is answered with, in a second")


@pytest.mark.parametrize(
    ("there", "missing", "remedy"),
    [
        ("", "cupti does not import", r"pip install 'cupti-python~=13.0'"),
        ("import elftools.elf", "elftools does not import", "install it: pip install pyelftools"),
        ("import numpy.no_such_module", "numpy does not import", "install it: pip install numpy"),
    ],
)
def test_the_package_that_tracing_lacks_is_named(tmp_path, monkeypatch, there, missing, remedy):
    if there:
        (tmp_path / "cupti").mkdir()
        (tmp_path / "cupti" / "__init__.py").write_text("from cupti import cupti")
        (tmp_path / "cupti" / "cupti.py").write_text(there)
    for name in ("cupti", "cupti.cupti", "elftools", "elftools.elf"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        sys, "path", [str(tmp_path)] + [path for path in sys.path if "numpy" in there]
    )
    with pytest.raises(EngineError, match=rf"{missing} \(.*\): .*{remedy}"):
        cupti.start()
