#!/bin/sh
# Counts the instructions per layout operation with valgrind: (count for 1000 operations - count for none) / 1000.
set -eu
cargo build -q --release --package xtask
collected() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "${CARGO_TARGET_DIR:-target}/release/xtask" instructions "$1" "$2" 2>&1 | sed -n 's/.*Collected : //p'
}
for operation in coalesce composition complement complement_nested logical_divide right_inverse \
    right_inverse_nested logical_product; do
    echo "$operation $((($(collected $operation 1000) - $(collected $operation 0)) / 1000))"
done
