// The C ABI of the CPU engine's runtime, which hostcuda.runtime.native calls through ctypes.
//
// Every function that can fail returns a status; hc_error() then holds one readable sentence (per calling thread).
// A fault inside a kernel (invalid address, overwritten shared memory, divergent barrier, deadlock, division by zero, stack
// overflow, wrong free, abort, exit) abandons only that launch: the next synchronizing call on its stream, its events, or the device returns HC_LAUNCH_FAILED once.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hc_status {
    HC_OK = 0,
    HC_NOT_READY = 1,       // query: not finished; synchronize: the timeout passed
    HC_LAUNCH_FAILED = 2,   // a kernel faulted
    HC_INVALID = 3,         // an invalid argument
    HC_OUT_OF_MEMORY = 4,
    HC_NOT_FOUND = 5,
};

typedef struct hc_module hc_module;
typedef struct hc_kernel hc_kernel;
typedef struct hc_stream hc_stream;   // NULL is CUDA's legacy default stream
typedef struct hc_event hc_event;

const char *hc_error(void);

// Workers run the blocks. start is called once, on first use; workers <= 0: one per processor of this process.
int hc_start(int workers);
int hc_workers(void);
void hc_stop(void);                   // waits for running work, joins the workers (atexit)

// Memory. Addresses are host addresses, 256-byte aligned, between red zones; new memory is filled with 0xFF bytes
// (NaN as float, -1 as int). free waits for the device like cudaFree and checks the red zones.
int hc_mem_limit(size_t bytes);       // the engine's "device memory"; 0 restores the default (half of the host's available memory)
void hc_heap_limit(size_t bytes);     // of what kernels allocate; 8 MB at first
int hc_mem_info(size_t *free_bytes, size_t *total_bytes);
int hc_mem_alloc(size_t bytes, void **address);
int hc_mem_free(void *address);
int hc_mem_range(const void *address, void **base, size_t *bytes);   // the allocation that contains address, else HC_NOT_FOUND
int hc_mem_written(const void *address, size_t bytes, uint8_t *sizes);   // as initcheck knows it: of each byte the size of the store that has set it, or 0
void hc_mem_of_device(const void *address);                           // an allocation that the host of a whole program must not access
void hc_write_result(const void *address);                            // such a host lets a call write there: as on a GPU, that is a fault
void hc_host_calls(int begins, int hides);                            // around its calls: after one that `hides`, it cannot
void hc_mem_mapped(const void *address, size_t bytes);                // page-locked memory of the host, or no longer (0); for check mode

// Memory of the host: whether these bytes can be read or written; of how many bytes the block is that malloc or new has returned
// to a program at that address, 0 if that is not known.
int hc_host_memory(const void *address, size_t bytes, int writes);
size_t hc_host_block(const void *address);
int hc_on_stack(const void *address);                                 // of the calling thread

// Copies and fills, in stream order. wait != 0: return when it and all earlier work of that stream are done.
int hc_memcpy(void *to, const void *from, size_t bytes, hc_stream *stream, int wait, const char *what /* "HtoD", "DtoH", "DtoD" */);
int hc_memset(void *to, uint32_t value, int width /* 1, 2 or 4 bytes */, size_t count, hc_stream *stream, int wait);

// Streams, events. With a timeout in seconds (< 0: none) Python can check for Ctrl-C.
int hc_stream_create(int non_blocking, hc_stream **stream);
int hc_stream_destroy(hc_stream *stream);
int hc_stream_synchronize(hc_stream *stream, double timeout_s);
int hc_stream_query(hc_stream *stream);
int hc_stream_wait_event(hc_stream *stream, hc_event *event);
int hc_synchronize(double timeout_s);
int hc_wait_or_pause(double timeout_s);   // check mode: as hc_synchronize, but a kernel that waits for the host is paused until the next wait
int hc_event_create(hc_event **event);
int hc_event_destroy(hc_event *event);
int hc_event_record(hc_event *event, hc_stream *stream);
int hc_event_synchronize(hc_event *event, double timeout_s);
int hc_event_query(hc_event *event);
int hc_event_elapsed_ms(hc_event *start, hc_event *end, double *milliseconds);   // HC_INVALID if never recorded
int hc_abort(void);                   // Ctrl-C: abandon running work and drop queued work; later work is not affected

// Modules: compiled kernels. Python reads from the file what the loader does not tell (hostcuda/runtime/layout.py), and keeps it as
// long as the module.
enum hc_parameter_kind { HC_POINTER = 'P', HC_SIGNED = 'i', HC_UNSIGNED = 'u', HC_FLOAT = 'f', HC_STRUCT = 's' };
typedef struct hc_parameter {
    int kind;          // hc_parameter_kind
    int size, align;   // bytes
    int offset;        // in the packed argument buffer, which is laid out like a C struct of the parameters
} hc_parameter;
typedef struct hc_kernel_info {
    const char *name;                 // as written in the source; of an overloaded one with its parameters
    const hc_parameter *parameters;
    int parameter_count;
    int packed_bytes;
    int max_threads;                  // from __launch_bounds__ if it is known, else 1024
    const char *why_fibers;           // the reason, if loops were wanted
    const void *function;             // its address
    const void *loops;                // that of its version as thread loops, or null
} hc_kernel_info;
typedef struct hc_array {
    const char *name;                 // as declared
    const void *image;                // its values, if it has a constructor
    size_t bytes;
    ptrdiff_t place;                  // from the end of static shared memory, in every worker
    int hidden;                       // made by the compiler, for a constructor
} hc_array;
typedef struct hc_static {            // the static shared memory of a kernel
    const hc_array *arrays;           // in the order of their addresses
    int count;
    size_t bytes;                     // of all arrays and margins
} hc_static;
enum hc_patch_kind { HC_DESCRIPTOR = 'd', HC_ARGUMENTS = 'a', HC_CODE = 'c' };
typedef struct hc_patch {             // how code finds a variable, and how from now on
    void *at;
    ptrdiff_t value;
    int kind;                         // hc_patch_kind: two words (a function and its argument, arguments of __tls_get_addr), or an offset
} hc_patch;
typedef struct hc_variable {          // for check mode
    const char *name;                 // as declared, or null
    void *at;
    size_t bytes;
    int space;                        // enum Space in check.h
} hc_variable;
int hc_module_load(const char *path, hc_module **module, size_t *base);     // base: where its addresses count from; the same file twice: two modules
int hc_module_unload(hc_module *module);                                     // waits for its kernels
int hc_module_kernel(hc_module *module, int index, hc_kernel **kernel, hc_kernel_info *info);   // HC_NOT_FOUND after the last
// Before the first launch: where the code is, how it finds its variables; each kernel's shared memory, on fibers and as loops.
int hc_module_place(hc_module *module, size_t text_begin, size_t text_end, const hc_patch *patches, int patch_count,
                    const hc_variable *variables, int variable_count);
void hc_kernel_place(hc_kernel *kernel, const hc_static *on_fibers, const hc_static *as_loops);
// The return addresses of the calling thread in a module's code, as offsets from its base, the innermost first.
size_t hc_module_callers(hc_module *module, size_t *offsets, size_t most);
void hc_host_faults(hc_module *module, void *tell);   // what takes a sentence about a fault of a whole program's host code
void hc_module_variable(hc_module *module, const void *address, size_t bytes);   // the host uses a __constant__ or __device__ variable

// Launch: arguments are copied from `packed`. Limits (1024 threads per block, grid, shared memory) are checked by the caller. The blocks
// of a cooperative launch can wait for each other, those of a cluster run together: zeros are the kernel's own __cluster_dims__.
// A programmatic one may begin before the launch before it has ended.
int hc_launch(hc_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t dynamic_shared,
              const void *packed, size_t packed_bytes, hc_stream *stream, int cooperative, const unsigned cluster[3], int programmatic);

// Device printf: copy at most `bytes` of the output since the last call; return their number.
size_t hc_printf_take(char *text, size_t bytes);

// Trace: one record per finished operation, in order of completion; times in seconds on CLOCK_MONOTONIC.
typedef struct hc_record {
    double queued, started, ended;
    size_t bytes;                     // copies and fills
    int stream;                       // 0 is the default stream
    int kind;                         // 'k' kernel, 'c' copy, 's' memset
    char name[104];                   // the kernel's name, or "HtoD", "DtoH", "DtoD", "memset"
} hc_record;
void hc_trace(int on);
size_t hc_trace_take(hc_record *records, size_t count);

#ifdef __cplusplus
}
#endif
