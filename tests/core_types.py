"""Another processor in a child process: its kernels of OpenBLAS and its loops of numpy.

Both are chosen by the processor, and they round differently: results agree in all but their last
digits. A processor can be made to work as one that has fewer instructions.
"""

import ctypes
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__

TESTS = Path(__file__).resolve().parent
NEEDED = {
    "SkylakeX": {"avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "Haswell": {"avx2", "fma"},
    "Nehalem": {"sse4_2"},
}
"""Core types of OpenBLAS, and the instructions that a processor needs to work as one."""
WITHOUT = {
    "SkylakeX": (),
    "Haswell": ("X86_V4", "AVX512"),
    "Nehalem": ("X86_V3", "X86_V4", "AVX", "F16C", "FMA"),
}
"""How the names begin of the loops of numpy that a processor of this type has not."""
CORE_NAME = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename",
)


def missing():
    """Return why this machine cannot show what another processor computes; None if it can."""
    if not possible():
        return "core types of OpenBLAS are chosen here for processors of x86-64 on Linux alone"
    if len(possible()) < 2:
        return f"this processor can work as no other core type than {possible()[0]}"
    if any(loaded(core) != {core} for core in possible()):
        return "numpy and scipy use another library than OpenBLAS, or one without its core types"
    return None


@cache
def possible():
    """Return the core types that this processor can work as, the one with most first."""
    described = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not described.exists():
        return ()
    lines = described.read_text().splitlines()
    has = set(next((line for line in lines if line.startswith("flags")), "").split())
    return tuple(core for core, needed in NEEDED.items() if needed <= has)


def environment(core):
    """Return the environment of a process on another processor."""
    lacked = [name for name in __cpu_dispatch__ if name.startswith(WITHOUT[core])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent / "src"))),
        "OPENBLAS_CORETYPE": core,
        "OPENBLAS_NUM_THREADS": "1",
        "NPY_DISABLE_CPU_FEATURES": " ".join(lacked),
    }


def run(core, *arguments):
    """Return what Python prints on another processor; fail with what it said if it fails."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment(core),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, f"on {core}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@cache
def loaded(core):
    """Return the core types that a process finds itself to have."""
    return set(run(core, "-m", "core_types").split())


def _names():
    """Yield the core type of each OpenBLAS that is loaded."""
    import numpy.linalg  # noqa: F401, PLC0415  loads the one of numpy
    import scipy.linalg  # noqa: F401, PLC0415  loads the one of scipy

    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    for path in sorted(one for one in mapped if "openblas" in one):
        library = ctypes.CDLL(path)
        for name in CORE_NAME:
            if hasattr(library, name):
                told = getattr(library, name)
                told.restype = ctypes.c_char_p
                yield told().decode()


if __name__ == "__main__":
    print(*_names())  # noqa: T201  for the parent process
