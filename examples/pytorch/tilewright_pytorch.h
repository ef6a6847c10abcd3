/* tilewright kernels for code that has device pointers and a stream, such as PyTorch.

   You load a kernel for one problem and launch it on contiguous tensors. A launch does not wait. If the stream is being
   captured into a graph, the launch becomes part of the graph. Loading fails during a capture, so load before it, and launch
   once, because some kernels allocate buffers at the first launch. Code that a graph uses is never unloaded.

   Launches of one kernel share buffers, for example a tile counter. So two graphs with launches of the same kernel must not run
   at the same time, and neither must such a graph and another launch of that kernel. If you need that, load the kernel twice.

   `stream` is a stream of GPU `device`'s primary context that is not destroyed before the process ends, as PyTorch's are.
   Functions return 0, or 1 after an error. Those that load return a kernel, or NULL after an error. */
#ifndef TILEWRIGHT_PYTORCH_H
#define TILEWRIGHT_PYTORCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tilewright_element { TILEWRIGHT_F16 = 0, TILEWRIGHT_BF16 = 1 };

/* Row operations, with the tensors that a launch takes. `count` is the k of top-k, `epsilon` is for the norms. */
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

/* D[i, j] = sum over K blocks b of 128: SA[i, b] SB[j / 128, b] (A's block b of row i times B's block b of row j). Tensors: A of
   m x k and its scales, B of n x k and its scales, D of m x n. A and B are e4m3, scales are float. Scales are strided: elements
   from one row of A, or 128 rows of B, to the next, then from one block along K to the next. */
typedef struct {
    int32_t element;
    uint32_t m, n, k;
    uint32_t a_scales[2], b_scales[2];
} tilewright_scaled_gemm;

/* x of rows x columns, y in e4m3, and the scales in float: y = x / scale. Those of a row (block is 0), of 1 x 128 elements (1), or
   of 128 x 128 (2) share a scale. Scales are strided as those of tilewright_scaled_gemm. */
typedef struct {
    int32_t element, block;
    uint32_t rows, columns;
    uint32_t scales[2];
} tilewright_quantize;

/* Q, K, V, O and LSE, each in the order batch, head, position, dimension. LSE is float. A query sees `left` keys before its own
   position and `right` keys after it. A negative value means all, and right = 0 is causal. A scale of 0 means 1 / sqrt(head_dim).
   The schedule is 0 for the GPU's default, or 1 for mma.sync. */
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
tilewright_kernel *tilewright_load_scaled_gemm(int32_t device, void *stream, const tilewright_scaled_gemm *problem);
tilewright_kernel *tilewright_load_quantize(int32_t device, void *stream, const tilewright_quantize *problem);
tilewright_kernel *tilewright_load_attention(int32_t device, void *stream, const tilewright_attention *problem);

/* Queues a launch on the kernel's tensors, inputs first. The tensors must live until the stream's work has ended (PyTorch's
   allocator takes care of that), and as long as a graph that contains the launch. */
int tilewright_launch(const tilewright_kernel *kernel, void *stream, void *const *tensors, uint32_t count);

/* Unloads the kernel when its work has ended. Ignores NULL. */
void tilewright_unload(tilewright_kernel *kernel);

/* Returns the message of this thread's last error, valid until its next call. */
const char *tilewright_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
