// The C ABI of the CPU engine's runtime, which labkit.cpu calls through ctypes.
//
// Every function that can fail returns a status; lk_error() then holds one readable sentence (per calling thread).
// A fault inside a kernel (invalid address, overwritten shared memory, divergent barrier, deadlock, division by zero, stack
// overflow, wrong free, abort, exit) abandons only that launch: the next synchronizing call on its stream, its events, or the device returns LK_LAUNCH_FAILED once.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lk_status {
    LK_OK = 0,
    LK_NOT_READY = 1,       // query: not finished; synchronize: the timeout passed
    LK_LAUNCH_FAILED = 2,   // a kernel faulted
    LK_INVALID = 3,         // an invalid argument
    LK_OUT_OF_MEMORY = 4,
    LK_NOT_FOUND = 5,
};

typedef struct lk_module lk_module;
typedef struct lk_kernel lk_kernel;
typedef struct lk_stream lk_stream;   // NULL is CUDA's legacy default stream
typedef struct lk_event lk_event;

const char *lk_error(void);

// Workers run the blocks. start is called once, on first use; workers <= 0: one per processor of this process.
int lk_start(int workers);
int lk_workers(void);
void lk_stop(void);                   // waits for running work, joins the workers (atexit)

// Memory. Addresses are host addresses, 256-byte aligned, between red zones; new memory is filled with 0xFF bytes
// (NaN as float, -1 as int). free waits for the device like cudaFree and checks the red zones.
int lk_mem_limit(size_t bytes);       // the engine's "device memory"; 0 restores the default (half of the host's available memory)
int lk_mem_info(size_t *free_bytes, size_t *total_bytes);
int lk_mem_alloc(size_t bytes, void **address);
int lk_mem_free(void *address);
int lk_mem_range(const void *address, void **base, size_t *bytes);   // the allocation that contains address, else LK_NOT_FOUND
void lk_mem_mapped(const void *address, size_t bytes);                // page-locked memory of the host, or no longer (0); for check mode

// Memory of the host: whether these bytes can be read or written; of how many bytes the block is that malloc or new has returned
// to a program at that address, 0 if that is not known.
int lk_host_memory(const void *address, size_t bytes, int writes);
size_t lk_host_block(const void *address);

// Copies and fills, in stream order. wait != 0: return when it and all earlier work of that stream are done.
int lk_memcpy(void *to, const void *from, size_t bytes, lk_stream *stream, int wait, const char *what /* "HtoD", "DtoH", "DtoD" */);
int lk_memset(void *to, uint32_t value, int width /* 1, 2 or 4 bytes */, size_t count, lk_stream *stream, int wait);

// Streams, events. With a timeout in seconds (< 0: none) Python can check for Ctrl-C.
int lk_stream_create(int non_blocking, lk_stream **stream);
int lk_stream_destroy(lk_stream *stream);
int lk_stream_synchronize(lk_stream *stream, double timeout_s);
int lk_stream_query(lk_stream *stream);
int lk_stream_wait_event(lk_stream *stream, lk_event *event);
int lk_synchronize(double timeout_s);
int lk_event_create(lk_event **event);
int lk_event_destroy(lk_event *event);
int lk_event_record(lk_event *event, lk_stream *stream);
int lk_event_synchronize(lk_event *event, double timeout_s);
int lk_event_query(lk_event *event);
int lk_event_elapsed_ms(lk_event *start, lk_event *end, double *milliseconds);   // LK_INVALID if never recorded
int lk_abort(void);                   // Ctrl-C: abandon running work and drop queued work; later work is not affected

// Modules: compiled kernels. Python reads from the file what the loader does not tell (labkit/cpu/layout.py), and keeps it as
// long as the module.
enum lk_parameter_kind { LK_POINTER = 'P', LK_SIGNED = 'i', LK_UNSIGNED = 'u', LK_FLOAT = 'f', LK_STRUCT = 's' };
typedef struct lk_parameter {
    int kind;          // lk_parameter_kind
    int size, align;   // bytes
    int offset;        // in the packed argument buffer, which is laid out like a C struct of the parameters
} lk_parameter;
typedef struct lk_kernel_info {
    const char *name;                 // as written in the source
    const lk_parameter *parameters;
    int parameter_count;
    int packed_bytes;
    int max_threads;                  // from __launch_bounds__ if it is known, else 1024
    const char *why_fibers;           // the reason, if loops were wanted
    const void *function;             // its address
    const void *loops;                // that of its version as thread loops, or null
} lk_kernel_info;
typedef struct lk_array {
    const char *name;                 // as declared
    const char *image;                // its values, if it has a constructor
    size_t bytes;
    ptrdiff_t place;                  // from the end of static shared memory, in every worker
    int hidden;                       // made by the compiler, for a constructor
} lk_array;
typedef struct lk_static {            // the static shared memory of a kernel
    const lk_array *arrays;           // in the order of their addresses
    int count;
    size_t bytes;                     // of all arrays and margins
} lk_static;
enum lk_patch_kind { LK_DESCRIPTOR = 'd', LK_ARGUMENTS = 'a', LK_CODE = 'c' };
typedef struct lk_patch {             // how code finds a variable, and how from now on
    void *at;
    ptrdiff_t value;
    int kind;                         // lk_patch_kind: two words (a function and its argument, arguments of __tls_get_addr), or an offset
} lk_patch;
typedef struct lk_variable {          // for check mode
    const char *name;                 // as declared, or null
    void *at;
    size_t bytes;
    int space;                        // enum Space in check.h
} lk_variable;
int lk_module_load(const char *path, lk_module **module, size_t *base);     // base: where its addresses count from; the same file twice: two modules
int lk_module_unload(lk_module *module);                                     // waits for its kernels
int lk_module_kernel(lk_module *module, int index, lk_kernel **kernel, lk_kernel_info *info);   // LK_NOT_FOUND after the last
// Before the first launch: where the code is, how it finds its variables; each kernel's shared memory, on fibers and as loops.
int lk_module_place(lk_module *module, size_t text_begin, size_t text_end, const lk_patch *patches, int patch_count,
                    const lk_variable *variables, int variable_count);
void lk_kernel_place(lk_kernel *kernel, const lk_static *on_fibers, const lk_static *as_loops);
void lk_module_variable(lk_module *module, const void *address, size_t bytes);   // the host uses a __constant__ or __device__ variable

// Launch: arguments are copied from `packed`. Limits (1024 threads per block, grid, shared memory) are checked by the caller.
int lk_launch(lk_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t dynamic_shared,
              const void *packed, size_t packed_bytes, lk_stream *stream);

// Device printf: copy at most `bytes` of the output since the last call; return their number.
size_t lk_printf_take(char *text, size_t bytes);

// Trace: one record per finished operation, in order of completion; times in seconds on CLOCK_MONOTONIC.
typedef struct lk_record {
    double queued, started, ended;
    size_t bytes;                     // copies and fills
    int stream;                       // 0 is the default stream
    int kind;                         // 'k' kernel, 'c' copy, 's' memset
    char name[104];                   // the kernel's name, or "HtoD", "DtoH", "DtoD", "memset"
} lk_record;
void lk_trace(int on);
size_t lk_trace_take(lk_record *records, size_t count);

#ifdef __cplusplus
}
#endif
