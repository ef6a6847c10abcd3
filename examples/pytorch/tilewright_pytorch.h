/* Kernels of tilewright for code with device pointers and a stream, such as PyTorch. */
#ifndef TILEWRIGHT_PYTORCH_H
#define TILEWRIGHT_PYTORCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues y = softmax(x) of contiguous rows of bf16 on `stream` of GPU `device`, and waits for nothing.
   The memory must stay until the work of the stream has ended, as PyTorch's allocator keeps it.
   Returns 0, or 1 after an error. */
int tilewright_softmax_bf16(int32_t device, void *stream, const void *x, void *y, uint32_t rows, uint32_t columns);

/* Compiles and loads the kernel for rows of this size, so that the first call takes no time.
   Returns 0, or 1 after an error. */
int tilewright_prepare_softmax_bf16(int32_t device, uint32_t rows, uint32_t columns);

/* The message of the last error of this thread, valid until its next call. */
const char *tilewright_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
