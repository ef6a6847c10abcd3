"""The calls of a file, timed with pycute, beside the time that the file gives for each.

A line is `operation<TAB>shape<TAB>stride<TAB>second shape<TAB>second stride<TAB>ns<TAB>result`. The result is
compared as a function, so that the same work is timed.
"""

import ast
import math
import sys
import time

import pycute
from pycute import Layout

CALLS = {
    "coalesce": lambda a, b: pycute.coalesce(a),
    "composition": pycute.composition,
    "complement": lambda a, b: pycute.complement(b, 4096),
    "right_inverse": lambda a, b: pycute.right_inverse(a),
    "left_inverse": lambda a, b: pycute.left_inverse(a),
    "logical_divide": pycute.logical_divide,
    "zipped_divide": pycute.zipped_divide,
    "logical_product": lambda a, b: pycute.logical_product(b, a),
    "crd2idx": lambda a, b: a(1234),
}


def nanoseconds(call, a, b):
    """The least mean of five rounds of at least 10 ms each."""
    count, best = 1, math.inf
    while True:
        start = time.perf_counter_ns()
        for _ in range(count):
            call(a, b)
        if time.perf_counter_ns() - start > 10_000_000:
            break
        count *= 2
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(count):
            call(a, b)
        best = min(best, (time.perf_counter_ns() - start) / count)
    return best


def values(layout):
    return [layout(i) for i in range(layout.size())]


logs, different = [], 0
print(f"{'operation':16}{'A':>36}{'B':>16}{'pycute ns':>12}{'here ns':>10}{'ratio':>8}")
for line in open(sys.argv[1]):
    name, shape, stride, shape2, stride2, ns, answer = line.rstrip("\n").split("\t")
    read = ast.literal_eval
    a, b = Layout(read(shape), read(stride)), Layout(read(shape2), read(stride2))
    theirs = CALLS[name](a, b)
    answer = [read(part) for part in answer.split(":")]
    if isinstance(theirs, Layout):
        same = values(theirs) == values(Layout(*answer))
    else:
        same = [theirs] == answer
    took, ns = nanoseconds(CALLS[name], a, b), float(ns)
    if same:
        logs.append(math.log(took / ns))
    else:
        different += 1
    note = "" if same else "  another result, not counted"
    print(f"{name:16}{str(a).replace(' ', ''):>36}{str(b).replace(' ', ''):>16}{took:12.0f}{ns:10.1f}{took / ns:8.0f}{note}")
print(f"{len(logs)} calls of the same result, {different} of another; geometric mean of the ratios: "
      f"{math.exp(sum(logs) / len(logs)):.0f}")
