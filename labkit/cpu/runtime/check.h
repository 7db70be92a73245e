// Check mode: the seams between the runtime and check.cpp. Only a runtime compiled with LABKIT_CHECK has them; it runs
// one worker, which runs a launch from its first block to its last.
#pragma once
#ifdef LABKIT_CHECK
#include <string>
#include <vector>
#include "runtime.h"

enum Space { global_space, shared_space, constant_space, local_space, unwatched_space };

// Addresses that belong together: an allocation, a variable, the stacks.
struct Range {
    uintptr_t low;
    size_t bytes;
    Space space;
    const char *name;          // a variable's, or null
    uint64_t *touched;         // one bit a byte, of global ranges, once a launch has touched them
    uint8_t *written;          // one byte a byte: somebody wrote it; null: unknown, nothing is said
    struct GlobalCell *cells = nullptr;   // who touched it last in this launch; null until racecheck needs it
    bool unchecked = false;    // there was no memory for these
    bool freed = false;        // by a kernel, in this launch
};

// What check.cpp has to know of a module; it lives as long as the module.
struct WatchedModule {
    std::string path;
    uintptr_t base = 0, text_begin = 0, text_end = 0;
    std::vector<Range> variables;                   // constants and __device__ variables
    struct Shared { std::string name; size_t offset, bytes; bool guard; };   // guard: notes that a constructor ran
    std::vector<Shared> shared;                     // static shared arrays, in the thread-local segment
    std::vector<unsigned> site_at;                  // offset of a return address in the code -> site, 0: none yet
    uint64_t **log = nullptr;                       // what instrument.py has put into the code: words and tables
    const char *pieces = nullptr, *accesses = nullptr;
    size_t pieces_bytes = 0, accesses_bytes = 0;
};

// Called by the runtime.
void watch_launch(const Launch &, char *dynamic_shared, char *static_shared);
void watch_block(Index at, unsigned threads);
void watch_thread(unsigned thread);                             // this thread runs now
bool watch_stop(unsigned thread, unsigned live, bool barrier);  // it waits (or has ended); true: its whole warp does
void watch_match(unsigned warp, unsigned live);                 // its logs, whoever else still runs
bool watch_resumes(unsigned thread);                            // it waited for that; true: it goes on
void watch_barrier_released();
// These lanes of a warp have met; what runs until watch_met() is done for all of them together, on behalf of the place
// in the code with that return address.
void watch_meeting(unsigned warp, unsigned lanes, void *from);
void watch_met();
void watch_end(bool whole, const std::string &error);           // of the launch
// The launch has been abandoned there: return addresses of the thread that ran, the innermost first.
void watch_fault(const char *tool, const char *kind, const std::string &sentence, const uintptr_t *places, size_t count);
void watch_cancelled(const uintptr_t *places, size_t count);

// Lanes that are named in the mask and have ended.
void watch_absent(const char *what, const char *file, int line, Index thread, unsigned lanes);
void watch_divergence(const char *file, int line, Index thread, const std::string &sentence);   // of barriers

// Offered by block.cpp and memory.cpp.
[[noreturn]] void leave_launch(const std::string &sentence);
labkit::Switch park_lane();                                     // the lane's log is full: let the others catch up
bool in_stacks(uintptr_t address, Range &stacks);
void visit_allocations(void (*visit)(const char *base, size_t bytes, uint8_t *written, void *context), void *context);
void note_written(const void *address, size_t bytes);           // by the host
bool watches(const char *tool);                                 // it was asked for
bool was_freed(const void *address, uintptr_t &base, size_t &bytes);
#endif
