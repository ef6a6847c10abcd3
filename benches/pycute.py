"""Times the operations of `benches/layout.rs` with pycute, the Python reference.

    python3 benches/pycute.py PATH_OF_A_CUTLASS_CHECKOUT

prints nanoseconds per operation, the median of several runs; the names are those of the criterion group `op`.
With `CRITERION` as a second argument, a file that holds what `cargo bench --bench layout -- op` printed, each
operation has its ratio, and the last line is their geometric mean.
"""

import math
import re
import statistics
import sys
import timeit

UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6}


def ours(path: str) -> dict[str, float]:
    """The middle estimate of each operation in the output of criterion, in nanoseconds."""
    text = open(path, encoding="utf-8").read()
    found = re.findall(r"^op/([\w ]+?)\s+time:\s+\[\S+ \S+ (\S+) (\S+) ", text, re.MULTILINE)
    return {name: float(value) * UNITS[unit] for name, value, unit in found}


def main() -> None:
    sys.path.insert(0, sys.argv[1] + "/python")
    from pycute import Layout, coalesce, complement, composition, left_inverse
    from pycute import logical_divide, logical_product, right_inverse, zipped_divide

    a = Layout((4, (2, 8)), (2, (1, 8)))
    b = Layout((4, 8), (8, 1))
    rows = Layout((128, 64), (64, 1))
    nested = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    flat = Layout((2, 4, 8, 16), (1, 2, 8, 64))
    tile = (Layout(2, 1), Layout(4, 1))
    operations = {
        "coalesce": lambda: coalesce(flat),
        "coalesce nested": lambda: coalesce(nested),
        "composition": lambda: composition(a, b),
        "complement": lambda: complement(b, 256),
        "complement nested": lambda: complement(nested, 256),
        "logical_divide": lambda: logical_divide(rows, tile),
        "logical_divide nested": lambda: logical_divide(a, tile),
        "zipped_divide": lambda: zipped_divide(rows, tile),
        "right_inverse": lambda: right_inverse(b),
        "right_inverse nested": lambda: right_inverse(nested),
        "left_inverse": lambda: left_inverse(b),
        "logical_product": lambda: logical_product(b, b),
    }
    rust = ours(sys.argv[2]) if len(sys.argv) > 2 else {}
    ratios = []
    for name, operation in operations.items():
        count = 1000
        typical = statistics.median(timeit.repeat(operation, number=count, repeat=7))
        nanoseconds = typical / count * 1e9
        line = f"{name:<24}{nanoseconds:>10.0f} ns"
        if name in rust:
            ratios.append(nanoseconds / rust[name])
            line += f"{rust[name]:>10.0f} ns{ratios[-1]:>8.0f} x"
        print(line)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)}: {mean:.0f} x")


main()
