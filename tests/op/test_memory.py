"""The composed path keeps no length × length tensor, forward or backward."""

import os
import subprocess
import sys

# Peak memory above what was there before, in MiB, of one forward and backward pass. The pass before it, over
# 128 rows, has loaded what the first call loads. The kernel's mark of the peak is reset in between.
SCRIPT = """
import sys, torch, ssa_attention
def kib(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))
def run(length):
    q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = kib("VmRSS")
    ssa_attention.attention(q, k, v, causal=True, kernel="composed", dropout=0.1).sum().backward()
    return (kib("VmHWM") - before) / 1024
run(128)
print(run(int(sys.argv[1])))
"""


def test_memory_grows_with_the_length_not_its_square():
    length = 6144
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(length)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    peak = float(run.stdout)
    one_matrix_of_scores = 2 * length * length * 4 / 2**20  # 288 MiB; autograd of the formula keeps several
    assert 0 < peak < one_matrix_of_scores / 2, f"{peak:.0f} MiB"  # about 20 blocks of 6 MiB
