#!/usr/bin/env bash
# The same calls in pycute and here, in one run: nanoseconds per call of both, their ratio, and the geometric
# mean of the ratios. It takes the path of a checkout of CUTLASS, of which nothing is kept.
#
#     benches/pycute_compare.sh PATH/TO/cutlass
set -euo pipefail
[[ -d ${1:-}/python/pycute ]] || { echo "usage: $0 PATH/TO/cutlass (it must hold python/pycute)" >&2; exit 1; }
checkout=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --quiet --release --no-default-features --example pycute_calls
calls=$(mktemp)
trap 'rm -f "$calls"' EXIT
"${CARGO_TARGET_DIR:-target}/release/examples/pycute_calls" >"$calls"
PYTHONPATH="$checkout/python" PYTHONDONTWRITEBYTECODE=1 python3 benches/pycute_compare.py "$calls"
