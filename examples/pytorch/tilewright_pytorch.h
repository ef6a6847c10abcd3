/* Kernels of tilewright for code with device pointers and a stream, such as PyTorch.

   A kernel is loaded for one problem, and launched on contiguous tensors. A launch waits for nothing. On a stream that is
   captured into a graph, a launch becomes part of the graph; loading fails there, so load before the capture, and launch once,
   because some kernels make buffers of their own at the first launch. Code that a graph has is never unloaded.

   Launches of one kernel share buffers, such as a counter of tiles. Neither two graphs with launches of one kernel nor a graph
   and a launch of it may run at the same time: load the kernel twice for that.

   `stream` is a stream of the primary context of GPU `device` that is not destroyed before the process ends, as PyTorch's are.
   Functions return 0, or 1 after an error; those that load return a kernel, or NULL after an error. */
#ifndef TILEWRIGHT_PYTORCH_H
#define TILEWRIGHT_PYTORCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tilewright_element { TILEWRIGHT_F16 = 0, TILEWRIGHT_BF16 = 1 };

/* Operations on rows, with the tensors of a launch. `count` is k of top-k, `epsilon` is of the norms. */
enum tilewright_row_op {
    TILEWRIGHT_SOFTMAX = 0,    /* x, y */
    TILEWRIGHT_RMS_NORM = 1,   /* x, weight, y */
    TILEWRIGHT_LAYER_NORM = 2, /* x, weight, bias, y */
    TILEWRIGHT_SUM = 3,        /* x, y of float */
    TILEWRIGHT_ARGMAX = 4,     /* x, y of int32_t */
    TILEWRIGHT_TOP_K = 5       /* x, values of float, columns of int32_t, each rows x count */
};

typedef struct {
    int32_t op, element;
    uint32_t rows, columns, count;
    float epsilon;
} tilewright_rows;

/* x of rows x columns, y of columns x rows. */
typedef struct {
    int32_t element;
    uint32_t rows, columns;
} tilewright_transpose;

/* D = A B^T: A of m x k, B of n x k, D of m x n. */
typedef struct {
    int32_t element;
    uint32_t m, n, k;
} tilewright_gemm;

/* Q, K, V, O and LSE, each in the order batch, head, position, dimension. LSE is float. A query sees `left` keys before its own
   position and `right` behind it; a negative number is all, and right = 0 is causal. A scale of 0 is 1 / sqrt(head_dim). The
   schedule is 0 for the default of the GPU, or 1 for mma.sync. */
typedef struct {
    int32_t element;
    uint32_t batch, heads, key_heads, queries, keys, head_dim, value_dim;
    int32_t left, right;
    float scale;
    int32_t schedule;
} tilewright_attention;

typedef struct tilewright_kernel tilewright_kernel;

tilewright_kernel *tilewright_load_rows(int32_t device, void *stream, const tilewright_rows *problem);
tilewright_kernel *tilewright_load_transpose(int32_t device, void *stream, const tilewright_transpose *problem);
tilewright_kernel *tilewright_load_gemm(int32_t device, void *stream, const tilewright_gemm *problem);
tilewright_kernel *tilewright_load_attention(int32_t device, void *stream, const tilewright_attention *problem);

/* Queues a launch on the tensors of the kernel, inputs first. The tensors stay until the work of the stream has ended, as
   PyTorch's allocator keeps them, and as long as a graph that has the launch. */
int tilewright_launch(const tilewright_kernel *kernel, void *stream, void *const *tensors, uint32_t count);

/* Unloads the kernel when its work has ended. NULL is no kernel. */
void tilewright_unload(tilewright_kernel *kernel);

/* The message of the last error of this thread, valid until its next call. */
const char *tilewright_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
