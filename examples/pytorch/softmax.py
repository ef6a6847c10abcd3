"""Softmax of tilewright on PyTorch's tensors and stream: `cargo build --release`, then `python softmax.py`."""

import ctypes
import pathlib

import torch

library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "target/release/libtilewright_pytorch.so"))
library.tilewright_last_error.restype = ctypes.c_char_p
library.tilewright_softmax_bf16.argtypes = [ctypes.c_int32] + 3 * [ctypes.c_void_p] + 2 * [ctypes.c_uint32]


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of the last dimension of a contiguous tensor of bfloat16 on a GPU."""
    if x.dtype != torch.bfloat16 or not x.is_cuda or not x.is_contiguous():
        raise TypeError("softmax takes a contiguous tensor of bfloat16 on a GPU")
    y = torch.empty_like(x)
    columns = x.shape[-1]
    rows = x.numel() // max(columns, 1)
    stream = torch.cuda.current_stream(x.device).cuda_stream
    failed = library.tilewright_softmax_bf16(x.device.index, stream, x.data_ptr(), y.data_ptr(), rows, columns)
    if failed:
        raise RuntimeError(library.tilewright_last_error().decode())
    return y


if __name__ == "__main__":
    x = torch.randn(4096, 1000, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1), rtol=2e-2, atol=1e-5)
    print("right")
