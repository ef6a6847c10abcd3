"""Times the operations of `benches/layout.rs` with pycute, the Python reference.

    python3 benches/pycute.py PATH_OF_A_CUTLASS_CHECKOUT

prints nanoseconds per operation; the names are those of the criterion group `op`.
"""

import sys
import timeit


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
    for name, operation in operations.items():
        count = 2000
        best = min(timeit.repeat(operation, number=count, repeat=5))
        print(f"{name:<24}{best / count * 1e9:>10.0f} ns")


main()
