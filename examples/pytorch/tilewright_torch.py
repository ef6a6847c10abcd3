"""Calls the kernels of `tilewright_pytorch.h` on PyTorch's tensors and its current stream."""

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_uint32, c_void_p

import torch

ELEMENTS = {torch.float16: 0, torch.bfloat16: 1}
ROW_OPS = {"softmax": 0, "rms_norm": 1, "layer_norm": 2, "sum": 3, "argmax": 4, "top_k": 5}


class Rows(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("op", "element")]
    _fields_ += [(name, c_uint32) for name in ("rows", "columns", "count")] + [("epsilon", c_float)]


class Transpose(ctypes.Structure):
    _fields_ = [("element", c_int32), ("rows", c_uint32), ("columns", c_uint32)]


class Gemm(ctypes.Structure):
    _fields_ = [("element", c_int32)] + [(name, c_uint32) for name in ("m", "n", "k")]


class ScaledGemm(ctypes.Structure):
    _fields_ = [("element", c_int32)] + [(name, c_uint32) for name in ("m", "n", "k")]
    _fields_ += [("a_scales", c_uint32 * 2), ("b_scales", c_uint32 * 2)]


class Quantize(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("element", "block")] + [(name, c_uint32) for name in ("rows", "columns")]
    _fields_ += [("scales", c_uint32 * 2)]


class Attention(ctypes.Structure):
    _sizes = ("batch", "heads", "key_heads", "queries", "keys", "head_dim", "value_dim")
    _fields_ = [("element", c_int32)] + [(name, c_uint32) for name in _sizes]
    _fields_ += [("left", c_int32), ("right", c_int32), ("scale", c_float), ("schedule", c_int32)]


LOADS = {Rows: "rows", Transpose: "transpose", Gemm: "gemm", ScaledGemm: "scaled_gemm", Quantize: "quantize", Attention: "attention"}


class Library:
    """The library of this example, loaded from a path."""

    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        for problem, name in LOADS.items():
            load = getattr(self.calls, f"tilewright_load_{name}")
            load.argtypes, load.restype = [c_int32, c_void_p, POINTER(problem)], c_void_p
        self.calls.tilewright_launch.argtypes = [c_void_p, c_void_p, POINTER(c_void_p), c_uint32]
        self.calls.tilewright_launch.restype = c_int
        self.calls.tilewright_unload.argtypes, self.calls.tilewright_unload.restype = [c_void_p], None
        self.calls.tilewright_last_error.restype = c_char_p

    def error(self):
        return RuntimeError(self.calls.tilewright_last_error().decode())

    def load(self, problem, device=0):
        """Returns the kernel of a problem. Fails while the current stream is captured."""
        load = getattr(self.calls, f"tilewright_load_{LOADS[type(problem)]}")
        handle = load(device, torch.cuda.current_stream(device).cuda_stream, ctypes.byref(problem))
        if not handle:
            raise self.error()
        return Kernel(self, handle, device)


class Kernel:
    """A loaded kernel. Call it with the tensors of its problem, outputs last."""

    def __init__(self, library, handle, device):
        self.library, self.handle, self.device = library, handle, device

    def bind(self, *tensors):
        """Returns a call without arguments, which launches the kernel on these tensors and the stream that is current now."""
        for tensor in tensors:
            if not tensor.is_contiguous() or tensor.get_device() != self.device:
                raise TypeError(f"a tensor is not contiguous on GPU {self.device}")
        addresses = (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
        stream = torch.cuda.current_stream(self.device).cuda_stream
        launch, handle, count = self.library.calls.tilewright_launch, self.handle, len(tensors)

        def call(tensors=tensors):  # Keeps the tensors.
            if launch(handle, stream, addresses, count):
                raise self.library.error()

        return call

    def __call__(self, *tensors):
        self.bind(*tensors)()

    def __del__(self):
        self.library.calls.tilewright_unload(self.handle)
