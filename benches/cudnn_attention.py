"""Times cuDNN's attention forward, through PyTorch, on the problems of a run of `tilewright bench attention`.

    tilewright bench attention --json ours.json
    python3 benches/cudnn_attention.py ours.json [ROUNDS]

prints, for each problem, the time and the speed of cuDNN, and the time of cuDNN divided by that of each kernel of the
file: above 1, ours took less time. Regime, launches of a window, operations and types are those of the file; both run as
replays of a graph, and a burst follows 40 ms of rest.
"""

import json
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

REST = 0.04
WINDOW = {"burst": 1e-3, "steady": 0.25}


def visible(length: int, causal: bool) -> float:
    """The pairs of a query and a key that it sees."""
    return length * (length + 1) / 2 if causal else float(length * length)


def capture(q, k, v, causal: bool, launches: int) -> torch.cuda.CUDAGraph:
    """A graph of launches by cuDNN; another backend is an error."""

    def run() -> None:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run()
    return graph


def replay(graph: torch.cuda.CUDAGraph) -> float:
    """The seconds of one replay, on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def measure(graph: torch.cuda.CUDAGraph, launches: int, regime: str) -> float:
    """The seconds of one launch, in one window."""
    if regime == "burst":
        torch.cuda.synchronize()
        time.sleep(REST)
        return replay(graph) / launches
    elapsed, count = 0.0, 0
    while elapsed < WINDOW[regime]:
        elapsed += replay(graph)
        count += launches
    return elapsed / count


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        ours = json.load(file)
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[ours["elements"]]
    regime = ours["regime"]
    print(f"cuDNN {torch.backends.cudnn.version()}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {regime}")
    for result in ours["results"]:
        if result["window"] is not None or result["softcap"] is not None:
            print(f"{result['shape']:<30} PyTorch has no such attention by cuDNN")
            continue
        batch, heads, length, dims = result["shape"].split("x")
        batch, heads, length = int(batch), int(heads), int(length)
        head_dim, value_dim = (int(dim) for dim in (dims.split("/") * 2)[:2])
        causal, key_heads = result["causal"], result["key_heads"]
        make = lambda heads, dim: torch.randn(batch, heads, length, dim, dtype=dtype, device="cuda")
        q, k, v = make(heads, head_dim), make(key_heads, head_dim), make(key_heads, value_dim)
        flops = 2.0 * batch * heads * visible(length, causal) * (head_dim + value_dim)
        launches = min(max(int(WINDOW[regime] / (flops / 5e14)), 1), 64)
        graph = capture(q, k, v, causal, launches)
        for _ in range(2):
            measure(graph, launches, regime)
        theirs = statistics.median(measure(graph, launches, regime) for _ in range(rounds))
        print(f"{result['shape']:<30} {theirs * 1e6:9.2f} us {flops / theirs / 1e12:8.1f} TFLOP/s  cuDNN")
        for kernel in result["kernels"]:
            seconds = statistics.median(kernel["seconds"])
            speed = flops / seconds / 1e12
            print(f"{'':<30} {seconds * 1e6:9.2f} us {speed:8.1f} TFLOP/s  {theirs / seconds:.3f} x cuDNN  {kernel['name']}")


if __name__ == "__main__":
    main()
