"""Softmax of tilewright on PyTorch's tensors, stream and graphs: `cargo build --release`, then `python softmax.py [LIBRARY]`."""

import functools
import pathlib
import sys

import torch
from tilewright_torch import ELEMENTS, ROW_OPS, Library, Rows


@functools.cache
def library():
    here = pathlib.Path(__file__).parent / "target/release/libtilewright_pytorch.so"
    return Library(sys.argv[1] if len(sys.argv) > 1 else here)


@functools.cache
def prepare(device, dtype, rows, columns):
    """Loads the kernel for tensors of this size, once. Not possible during a capture."""
    op = ROW_OPS["softmax"]
    return library().load(Rows(op=op, element=ELEMENTS[dtype], rows=rows, columns=columns), device)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of the last dimension of a contiguous tensor of float16 or bfloat16 on a GPU."""
    y = torch.empty_like(x)
    columns = x.shape[-1]
    prepare(x.get_device(), x.dtype, x.numel() // max(columns, 1), columns)(x, y)
    return y


if __name__ == "__main__":
    x = torch.randn(4096, 1000, device="cuda", dtype=torch.bfloat16)
    close = functools.partial(torch.testing.assert_close, rtol=2e-2, atol=1e-5)
    close(softmax(x), torch.softmax(x, dim=-1))

    # Captured once, replayed on new data: the kernel is loaded since the call above.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(softmax(x))
    for seed in range(3):
        torch.manual_seed(seed)
        x.normal_()
        graph.replay()
        close(y, torch.softmax(torch.softmax(x, dim=-1), dim=-1))

    # The first call for a size cannot be captured. The graph has nothing of it, and the next capture works.
    wider = torch.randn(4096, 1001, device="cuda", dtype=torch.bfloat16)
    refused = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(refused):
            softmax(wider)
        sys.exit("a first call was captured")
    except RuntimeError as error:
        print(f"not prepared: {error}")
    softmax(wider)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        softmax(wider)
    print("right")
