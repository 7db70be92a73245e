// Streams, events, and the workers that run their operations.
//
// An operation (kernel, copy, fill, event record, event wait) stays in the queue of its stream until it is done. When it is
// the first one there, and CUDA's rules about the default stream allow it, it becomes active. Workers choose the active
// operation with the fewest workers, take a chunk of its pieces (blocks of a kernel, megabytes of a copy), and choose again.
// So independent streams run in parallel, and a long kernel does not block others.
//
// One mutex guards all of it. It is held for a few hundred instructions at a time and never while kernels run. Waiting
// threads poll for a few dozen microseconds before they sleep, because waking a sleeping thread takes longer than a small
// kernel.
#undef _FORTIFY_SOURCE
#include "check.h"
#include "lock.h"
#include "runtime.h"
#include <atomic>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <vector>

using hostcuda::Queue;

namespace {

constexpr double look_s = 50e-6;          // of polling before sleeping
constexpr double chunk_s = 50e-6;         // about the time of a worker's chunk
constexpr double worth_waking_s = 20e-6;  // for less work than this no other worker is woken
constexpr double trim_after_s = 0.2;
constexpr double tick_s = 10e-3;          // a thread that runs for longer may wait for another one in a loop
constexpr double next_tick_s = 50e-6;     // if one has done so
constexpr unsigned ticks_before_looking = 50;
constexpr double stuck_s = 0.5;           // all workers are stuck, before their launches are ended
constexpr int idle_ticks = 100;           // then nobody ticks until the next launch
constexpr size_t copy_piece = 1 << 20;
constexpr size_t at_once = 64 << 10;      // the caller makes smaller copies itself if no operation precedes them
constexpr size_t trace_limit = 1 << 20;

struct Record {                           // one record of an event
    bool done;
    double time;
    unsigned users;                       // the event, and operations
    Clock clock{};                        // check mode
};

enum Kind { kernel, copy, fill, record, wait_event };

struct Operation {
    explicit Operation(Kind kind) : kind(kind) {}

    Kind kind;
    Operation *next;                      // in the stream's queue
    hc_stream *stream;
    uint64_t number;                      // in order of issue, over all streams
    double queued = now(), started = 0;
    uint64_t pieces = 1, taken = 0, chunk = 1;
    unsigned workers = 0;                 // that run pieces of it
    bool active = false;
    bool aborted = false;                 // by hc_abort: not an error
    volatile bool cancelled = false;      // read by the workers that run it
    std::string error;

    Launch launch{};
    std::vector<char> arguments;
    char *to = nullptr;
    const char *from = nullptr;
    size_t bytes = 0;
    uint32_t value = 0;
    int width = 1;
    const char *what = "";
    Record *event = nullptr;
};

struct Worker {
    pthread_t thread;
    Block *block = nullptr;
    bool ready = false;                   // it has its block, or there was no memory for one
    Operation *operation = nullptr;       // guarded by the pool's mutex
    unsigned ticks = 0;                   // since it has begun its pieces
};

}  // namespace

struct hc_stream {
    int number;
    bool non_blocking;
    bool destroyed = false;
    Queue<Operation> queue{};             // the first is active or the next one
    std::string error{};                  // of a failed launch, until the next synchronization
};

struct hc_event {
    Record *latest = nullptr;
    hc_stream *stream = nullptr;          // of that record
};

namespace {

struct Pool {
    Mutex mutex;
    Condition work, done;   // for sleeping workers; for threads that synchronize
    Condition launched;     // for the ticker
    pthread_t ticker;
    bool ticks = false, ticker_sleeps = false;
    std::vector<Worker *> workers;
    unsigned sleeping = 0, looking = 0, most_looking = 0, waiting = 0;
    std::atomic<unsigned> activations{0}, completions{0};
    bool stopping = false, forked = false;
    Condition resumed;                    // for a paused kernel

    hc_stream default_stream{0, false};
    std::vector<hc_stream *> streams{&default_stream};
    int next_stream = 1;
    uint64_t next_number = 1;
    std::vector<Operation *> active;

    bool tracing = false;
    std::vector<hc_record> trace;
    size_t taken = 0;                     // of the trace
};

#ifdef HOSTCUDA_CHECK
volatile bool pausing = false;            // the kernel is to pause where it lets other threads run
#endif
Pool &pool = *new Pool;                   // never destroyed: workers may run while the process exits

Record *use(Record *record) {
    record->users++;
    return record;
}

void drop(Record *record) {
    if (record && !--record->users) delete record;
}

void discard(Operation *op) {
    drop(op->event);
    delete op;
}

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Poll a counter for a short time, without the lock.
void look_at(Lock &lock, std::atomic<unsigned> &counter, double until) {
    unsigned seen = counter.load();
    lock.unlock();
    for (unsigned i = 1; counter.load(std::memory_order_relaxed) == seen; i++) {
        relax();
        if (i % 32 == 0) {
            if (now() > until) break;
            sched_yield();
        }
    }
    // The thread that changed it will release the lock soon: sleeping would take longer.
    for (int i = 0; i < 100; i++) {
        if (lock.try_lock()) return;
        relax();
    }
    lock.lock();
}

// ---- Which operation may run ------------------------------------------------------------------------------

// CUDA's legacy default stream waits for all earlier operations of other (blocking) streams, and they wait for
// it.
bool may_start(const Operation &op) {
    if (op.kind == wait_event && !op.event->done) return false;
    if (op.stream->non_blocking) return true;
    if (op.stream != &pool.default_stream) {
        auto &queue = pool.default_stream.queue;
        return !queue.head || queue.head->number > op.number;
    }
    for (hc_stream *other : pool.streams) {
        bool counts = other != op.stream && !other->non_blocking && other->queue.head;
        if (counts && other->queue.head->number < op.number) return false;
    }
    return true;
}

void finish(Operation *op) {
    hc_stream *stream = op->stream;
    stream->queue.pop();
    double end = now();
    if (op->kind == record) op->event->done = true, op->event->time = end;
    hc_stream *told = stream->destroyed ? &pool.default_stream : stream;   // no later call can return it for this stream
    if (!op->error.empty() && !op->aborted && told->error.empty()) told->error = op->error;
    if (pool.tracing && op->kind <= fill && pool.trace.size() < trace_limit) {
        hc_record r{op->queued, op->started, end, op->bytes, stream->number, "kcs"[op->kind], {}};
        snprintf(r.name, sizeof r.name, "%s", op->kind == kernel ? op->launch.kernel : op->what);
        pool.trace.push_back(r);
    }
    discard(op);
    pool.completions++;
}

// Start all operations that may start. Records and waits are done at once, which may allow others to start.
void advance() {
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < pool.streams.size(); i++) {
            hc_stream *stream = pool.streams[i];
            while (Operation *op = stream->queue.head) {
                if (op->active || !may_start(*op)) break;
                if (op->kind == record || op->kind == wait_event) {
                    finish(op);
                    again = true;
                    continue;
                }
                op->active = true;
                pool.active.push_back(op);
                pool.activations++;
                break;
            }
            if (stream->destroyed && !stream->queue.head) {
                pool.streams.erase(pool.streams.begin() + i--);
                delete stream;
            }
        }
    }
}

// An active operation has no pieces left, and no worker runs one.
void complete(Operation *op) {
    for (size_t i = 0; i < pool.active.size(); i++)
        if (pool.active[i] == op) pool.active.erase(pool.active.begin() + i);
    finish(op);
    advance();
    if (pool.waiting) pool.done.notify_all();
}

// ---- Workers ----------------------------------------------------------------------------------------------

Operation *choose() {
    Operation *best = nullptr;
    for (Operation *op : pool.active)
        if (op->taken < op->pieces && (!best || op->workers < best->workers)) best = op;
    return best;
}

// Wake workers for an active operation. Polling workers see it themselves, and wake others if there is much work.
void wake_a_worker() {
    if (pool.sleeping && !pool.looking) pool.work.notify_one();
}

void run_copy(const Operation &op, uint64_t first, uint64_t count) {
    size_t begin = first * copy_piece, end = (first + count) * copy_piece;
    if (end > op.bytes) end = op.bytes;
    if (op.kind == copy && op.what[0] == 'D') {
        if (op.what[3] == 'D') note_copied(op.to + begin, op.from + begin, end - begin);
        else if (!first) note_to_host(op.value, op.to, op.from, op.bytes);
    } else {
        note_written(op.to + begin, end - begin);
    }
    if (op.kind == copy) {
        if (op.pieces == 1) memmove(op.to + begin, op.from + begin, end - begin);   // the spans may overlap
        else memcpy(op.to + begin, op.from + begin, end - begin);
    } else if (op.width == 1) {
        memset(op.to + begin, op.value, end - begin);
    } else {
        uint64_t words = op.width == 2 ? (op.value & 0xffff) * 0x0001000100010001 : op.value * 0x0000000100000001;
        size_t at = begin;
        for (; at + sizeof words <= end; at += sizeof words) memcpy(op.to + at, &words, sizeof words);
        memcpy(op.to + at, &words, end - at);
    }
}

// In check mode, whose one worker runs the blocks of a grid one after the other: the block that is first.
uint64_t first_block = 0;

// Run pieces [first, first + count). False: the launch failed; `error` says why (empty if it was cancelled).
bool run_pieces(Block *block, Operation &op, uint64_t first, uint64_t count, std::string &error) {
    if (op.kind != kernel) {
        run_copy(op, first, count);
        return true;
    }
    if (op.launch.cooperative) {
        bool fine = run_grid(*block, &op.cancelled);
        if (!fine) error = error_of(*block);
        watch_failure(error);
        return fine && error.empty();
    }
    const Index &cluster = op.launch.cluster;
    const Index grid = {op.launch.grid.x / cluster.x, op.launch.grid.y / cluster.y, op.launch.grid.z / cluster.z};
    auto run = cluster.x * cluster.y * cluster.z > 1 ? run_cluster : run_block;
    if (checking) first = (first + first_block) % op.pieces;
    uint64_t rest = first / grid.x;
    Index at{(unsigned)(first % grid.x), (unsigned)(rest % grid.y), (unsigned)(rest / grid.y)};
    for (; count && !op.cancelled; count--) {
        if (!run(*block, at, &op.cancelled)) {
            error = error_of(*block);
            watch_failure(error);
            if (!watch_goes_on()) return false;
        }
        if (++at.x == grid.x) {
            at.x = 0;
            if (++at.y == grid.y) {
                at.y = 0;
                if (++at.z == grid.z) at.z = 0;
            }
        }
    }
    watch_failure(error);
    return error.empty();
}

void rest(Lock &lock, Block &block, bool &used) {
    if (pool.looking < pool.most_looking) {
        unsigned before = pool.activations;
        pool.looking++;
        look_at(lock, pool.activations, now() + look_s);
        pool.looking--;
        if (pool.activations != before || pool.stopping) return;
    }
    pool.sleeping++;
    if (!used) {
        pool.work.wait(lock);
    } else if (!pool.work.wait_for(lock, trim_after_s)) {
        trim_stacks(block);
        used = false;
    }
    pool.sleeping--;
}

void work(Worker &me, Block &block) {
    uint64_t launch_number = 0;   // the launch this worker is prepared for
    bool used = false;
    Lock lock(pool.mutex);
    while (!pool.stopping) {
        Operation *op = choose();
        if (!op) {
            rest(lock, block, used);
            continue;
        }
        if (op->taken == 0) op->started = now();
        uint64_t first = op->taken, left = op->pieces - first;
        uint64_t fair = left / (2 * pool.workers.size()) + 1;
        uint64_t count = op->chunk < fair ? op->chunk : fair;
        if (checking && op->kind == kernel) count = left;
        op->taken += count;
        op->workers++;
        me.operation = op;
        me.ticks = 0;
        double *estimate = op->launch.block_seconds;
        bool soon_done = estimate && *estimate > 0 && *estimate * left < worth_waking_s;
        if (Operation *more = choose(); more && (more != op || !soon_done)) wake_a_worker();
        lock.unlock();

        double begin = now();
        if (op->kind == kernel && op->number != launch_number) {
            begin_launch(block, op->launch);
            launch_number = op->number;
            used = true;
        }
        std::string error;
        bool fine = run_pieces(&block, *op, first, count, error);
        double seconds = now() - begin;
        if (checking && op->kind == kernel) {
            if (op->cancelled && error.empty()) error = format("kernel %s was stopped", op->launch.kernel);
            watch_end(fine && !op->cancelled, error);
        }

        lock.lock();
        me.operation = nullptr;
        op->workers--;
        if (!fine) {
            if (op->error.empty() && !op->cancelled) op->error = error;
            op->cancelled = true;
        }
        if (op->cancelled) op->taken = op->pieces;
        if (estimate) *estimate = seconds / count;
        if (seconds < chunk_s) op->chunk = 2 * count;
        else if (seconds > 4 * chunk_s) op->chunk = count / 2 + 1;
        if (op->taken == op->pieces && op->workers == 0) {
            if (op->kind == kernel) {
                std::string damage = take_damage_by(op->launch.kernel, op->arguments);
                if (op->error.empty()) op->error = damage;
            }
            complete(op);
        }
    }
}

// ---- Signals ----------------------------------------------------------------------------------------------

const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int fault_count = sizeof fault_signals / sizeof *fault_signals;
struct sigaction previous[fault_count];
volatile sig_atomic_t handed_on[fault_count];
int kick_signal() { return SIGRTMIN + 6; }
int tick_signal() { return SIGRTMIN + 7; }

void on_fault(int signal, siginfo_t *info, void *context) {
    if (leave_after_signal(signal, info, context)) return;   // it does not return at all after a fault of a kernel
    tell_of_host_fault(signal, info, context);
    for (int i = 0; i < fault_count; i++) {
        if (fault_signals[i] != signal) continue;
        struct sigaction &before = previous[i];
        bool callable = before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN;
        if (callable && !handed_on[i]++) {
            if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
            else before.sa_handler(signal);
        } else {
            ::signal(signal, SIG_DFL);           // after the return the fault occurs again and ends the process
            if (info->si_code <= 0) raise(signal);   // sent by a process: it would not occur again
        }
    }
}

void on_kick(int, siginfo_t *, void *context) { leave_if_cancelled(context); }
void on_tick(int signal, siginfo_t *, void *context) {
    int error = errno;
    let_others_run_after_signal(signal, context);
    errno = error;
}

// Before every launch, because another handler may have been installed.
void install_handlers() {
    for (int i = 0; i < fault_count; i++) {
        struct sigaction current;
        sigaction(fault_signals[i], nullptr, &current);
        if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_fault) {
            if (i == 0) return;
            continue;
        }
        previous[i] = current;
        handed_on[i] = 0;
        struct sigaction ours = {};
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(fault_signals[i], &ours, nullptr);
    }
}

// Interrupt the workers whose operation is cancelled. The signal has an effect only while the worker runs the kernel's own
// code, so waiting threads repeat it.
bool kick_cancelled() {
    bool any = false;
    for (Worker *w : pool.workers)
        if (w->operation && w->operation->cancelled) {
            pthread_kill(w->thread, kick_signal());
            any = true;
        }
    return any;
}

// End the launches of the workers that are stuck: these are all.
void stop_stuck() {
    for (Worker *w : pool.workers) {
        Operation *op = w->operation;
        if (!op || op->cancelled) continue;
        op->error = describe_stuck(*w->block);
        if (op->pieces > 1)
            op->error += format(". Of the %llu blocks of its grid, %zu run at a time here, one per worker: a block cannot wait for a "
                                "later one. End the kernel there, and launch the rest as a second one",
                                (unsigned long long)op->pieces, pool.workers.size());
        op->cancelled = true;
    }
}

// Interrupt workers that run the same blocks for long: their threads may wait for others in a loop.
void *ticker_main(void *) {
    Lock lock(pool.mutex);
    double nap = tick_s, stuck_since = 0;
    unsigned looked = 0, waited = 0;
    for (int idle = 0; !pool.stopping;) {
        if (idle == idle_ticks) {
            pool.ticker_sleeps = true;
            pool.launched.wait(lock);
            pool.ticker_sleeps = false;
            idle = 0;
        } else {
            pool.launched.wait_for(lock, nap);
        }
        nap = tick_s;
        idle++;
        bool stuck = true;
        const unsigned before_looking = pauses ? ticks_before_looking / 10 : ticks_before_looking;
        for (Worker *w : pool.workers) {
            Operation *op = w->operation;
            if (!op) continue;
            idle = 0;
            if (w->ticks && op->kind == kernel) {
                if (expects_signal(*w->block)) pthread_kill(w->thread, tick_signal());
                if (has_spun(*w->block)) nap = next_tick_s;
                if (w->ticks > before_looking) look_for_progress(*w->block);
            }
            w->ticks++;
            stuck = stuck && op->kind == kernel && is_stuck(*w->block);
        }
        // Nothing can change if all workers are stuck, and the host waits for them.
        if (idle || !stuck || !stuck_since) {
            stuck_since = idle || !stuck ? 0 : now();
            looked = waited = 0;
            continue;
        }
        looked++;
        waited += pool.waiting > 0;        // a host that waits wakes for moments, to look for Ctrl-C
        if (now() - stuck_since < (pauses ? stuck_s / 10 : stuck_s)) continue;
#ifdef HOSTCUDA_CHECK
        if (pauses) pausing = true;
        else
#endif
        if (2 * waited > looked) stop_stuck();
        stuck_since = 0;
    }
    return nullptr;
}

void *worker_main(void *self) {
    constexpr size_t alternate = 64 << 10;
    stack_t stack = {};
    stack.ss_sp = map_memory(alternate);
    stack.ss_size = alternate;
    sigaltstack(&stack, nullptr);
    Worker &me = *(Worker *)self;
    Block *block = stack.ss_sp ? new_block() : nullptr;
    {
        Lock lock(pool.mutex);
        me.block = block;
        me.ready = true;
        pool.done.notify_all();
    }
    if (block) {
        work(me, *block);
        delete_block(block);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    munmap(stack.ss_sp, alternate);
    return nullptr;
}

// ---- Waiting ----------------------------------------------------------------------------------------------

#ifdef HOSTCUDA_CHECK
// The mutex is held.
void resume_kernel() {
    pausing = paused = false;
    pool.resumed.notify_all();
}
#else
void resume_kernel() {}
#endif

// Wait until done(). False: the timeout (< 0: none) passed before.
template <class Done> bool wait_until(Lock &lock, double timeout, Done done) {
    double start = now();
    if (timeout != 0) resume_kernel();
    while (!done()) {
        double waited = now() - start;
        if (timeout >= 0 && waited >= timeout) return false;
        if (waited < look_s && timeout != 0) {
            look_at(lock, pool.completions, start + look_s);
            continue;
        }
        double nap = timeout < 0 || timeout - waited > 1 ? 1 : timeout - waited;
        if (kick_cancelled()) nap = 1e-3;
        pool.waiting++;
        pool.done.wait_for(lock, nap);
        pool.waiting--;
    }
    return true;
}

// Whether all operations up to `number` are done for which a null operation in that stream would wait (null: of all
// streams).
bool passed(hc_stream *stream, uint64_t number) {
    for (hc_stream *s : pool.streams) {
        bool counts = !stream || s == stream || (stream == &pool.default_stream && !s->non_blocking);
        if (counts && s->queue.head && s->queue.head->number <= number) return false;
    }
    return true;
}

int take_error(hc_stream *stream) {
    std::string text;
    for (hc_stream *s : pool.streams) {
        bool counts = !stream || s == stream || (stream == &pool.default_stream && !s->non_blocking);
        if (!counts || s->error.empty()) continue;
        if (text.empty()) text = s->error;
        s->error.clear();
    }
    return text.empty() ? (int)HC_OK : set_error(HC_LAUNCH_FAILED, "%s", text.c_str());
}

int synchronize(hc_stream *stream, double timeout) {
    Lock lock(pool.mutex);
    uint64_t last = pool.next_number - 1;
    if (!wait_until(lock, timeout, [&] { return passed(stream, last); }))
        return set_error(HC_NOT_READY, "the work is not finished");
    watch_waited(stream ? stream->number : -1);
    return take_error(stream);
}

// The number of processors that this process may use, from its affinity mask and its control group's quota.
int count_processors() {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r")) {
        long quota, period;   // "max 100000" if there is no limit
        if (fscanf(file, "%ld %ld", &quota, &period) == 2 && quota < count * period)
            count = (int)((quota + period - 1) / period);
        fclose(file);
    }
    return count;
}

hc_stream *stream_or_default(hc_stream *stream) { return stream ? stream : &pool.default_stream; }

int not_usable() {
    return set_error(HC_INVALID, "this process was forked and has none of the engine's workers: "
                                 "use a fresh process (multiprocessing's spawn method)");
}

// Queue an operation. Small copies that no operation precedes are made at once.
int enqueue(Operation *op, hc_stream *stream) {
    if (hc_start(0) != HC_OK) {
        discard(op);
        return HC_INVALID;
    }
    op->stream = stream_or_default(stream);
    Lock lock(pool.mutex);
    if (op->kind == kernel) install_handlers();
    op->number = op->launch.number = pool.next_number++;
    watch_queued(op->number, op->stream->number, op->kind == kernel ? op->launch.kernel : nullptr,
                 op->kind == record ? &op->event->clock : nullptr, op->kind == wait_event ? &op->event->clock : nullptr);
    if (op->kind == copy || op->kind == fill)
        watch_memory(op->number, op->stream->number, op->to, op->from, op->bytes, op->kind == copy && op->what[3] == 'H',
                     op->kind == copy && op->what[0] == 'H');
    op->stream->queue.push(op);
    if (op->stream->queue.head != op) return HC_OK;
    if ((op->kind == copy || op->kind == fill) && op->bytes <= at_once && may_start(*op)) {
        op->started = now();
        op->active = true;
        lock.unlock();
        run_copy(*op, 0, 1);
        lock.lock();
        complete(op);
    } else {
        advance();
    }
    if (pool.ticker_sleeps) pool.launched.notify_one();
    if (choose()) wake_a_worker();
    return HC_OK;
}

}  // namespace

#ifdef HOSTCUDA_CHECK
volatile bool pauses = false, paused = false;

void pause_kernel(const volatile bool *cancelled) {
    if (!pausing) return;
    Lock lock(pool.mutex);
    watch_pause(true);
    paused = true;
    pool.done.notify_all();
    while (paused && !*cancelled && !pool.stopping) pool.resumed.wait_for(lock, 0.1);
    watch_pause(false);
}

// Until all work is done, or its kernel waits for the host.
static bool wait_or_pause(Lock &lock, double timeout) {
    uint64_t last = pool.next_number - 1;
    pauses = true;
    bool over = wait_until(lock, timeout, [&] { return paused || passed(nullptr, last); });
    pauses = false;
    return over;
}

void let_kernel_run() {
    Lock lock(pool.mutex);
    wait_or_pause(lock, -1);
}

EXPORT int hc_wait_or_pause(double timeout) {
    Lock lock(pool.mutex);
    if (!wait_or_pause(lock, timeout)) return set_error(HC_NOT_READY, "the work is not finished");
    if (paused) return HC_OK;
    watch_waited(-1);
    return take_error(nullptr);
}
#else
EXPORT int hc_wait_or_pause(double timeout) { return hc_synchronize(timeout); }
#endif

int wait_for_device() {
    Lock lock(pool.mutex);
    uint64_t last = pool.next_number - 1;
    if (!pool.forked) wait_until(lock, -1, [&] { return passed(nullptr, last); });
    watch_waited(-1);
    return HC_OK;
}

// ---- The ABI ----------------------------------------------------------------------------------------------

EXPORT int hc_start(int count) {
    Lock lock(pool.mutex);
    if (pool.forked) return not_usable();
    if (!pool.workers.empty()) return HC_OK;
    int processors = count_processors();
    if (count <= 0) count = processors;
    pool.most_looking = processors - 1 < 4 ? processors - 1 : 4;
    pool.stopping = false;
    static bool first = [] {
        pthread_atfork(nullptr, nullptr, [] { pool.forked = true; });
        return true;
    }();
    (void)first;
    install_handlers();
    struct sigaction kick = {};
    kick.sa_sigaction = on_kick;
    kick.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(kick_signal(), &kick, nullptr);
    kick.sa_sigaction = on_tick;
    kick.sa_flags = SA_SIGINFO | SA_RESTART;   // on the stack of its fiber, where it may stay for long
    sigaction(tick_signal(), &kick, nullptr);
    // Workers block the signals for the program, Ctrl-C for example.
    sigset_t others, before;
    sigfillset(&others);
    for (int signal : fault_signals) sigdelset(&others, signal);
    sigdelset(&others, kick_signal());
    sigdelset(&others, tick_signal());
    pthread_sigmask(SIG_SETMASK, &others, &before);
    for (int i = 0; i < count; i++) {
        Worker *worker = new Worker;
        if (pthread_create(&worker->thread, nullptr, worker_main, worker) != 0) {
            delete worker;
            break;
        }
        pool.workers.push_back(worker);
    }
    bool threads = !pool.workers.empty();
    for (size_t i = 0; i < pool.workers.size();) {
        Worker *worker = pool.workers[i++];
        while (!worker->ready) pool.done.wait(lock);
        if (worker->block) continue;
        pool.workers.erase(pool.workers.begin() + --i);
        pthread_join(worker->thread, nullptr);
        delete worker;
    }
    pool.ticks = !pool.workers.empty() && pthread_create(&pool.ticker, nullptr, ticker_main, nullptr) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!pool.workers.empty()) return HC_OK;
    if (!threads) return set_error(HC_INVALID, "the system allows no more threads");
    return set_error(HC_OUT_OF_MEMORY, "there is no memory for a worker, which reserves 80 MB of addresses and more: give the "
                     "process more (ulimit -v)");
}

EXPORT int hc_workers(void) {
    Lock lock(pool.mutex);
    return (int)pool.workers.size();
}

EXPORT void hc_stop(void) {
    if (pool.forked) return;
    wait_for_device();
    Lock lock(pool.mutex);
    pool.stopping = true;
    pool.activations++;
    std::vector<Worker *> workers;
    workers.swap(pool.workers);
    lock.unlock();
    pool.work.notify_all();
    pool.launched.notify_all();
    if (pool.ticks) pthread_join(pool.ticker, nullptr);
    for (Worker *worker : workers) {
        pthread_join(worker->thread, nullptr);
        delete worker;
    }
}

EXPORT void hc_host_calls(int begins, int hides) {
    static unsigned callers = 0;          // threads of the host in a call
    Lock lock(pool.mutex);
    if (begins) {
        if (!callers++) hide_memory(false);
        return;
    }
    for (hc_stream *stream : pool.streams)
        if (stream->queue.head) hides = 0;
    if (--callers || !hides) return;
    install_handlers();
    hide_memory(true);
}

EXPORT int hc_launch(hc_kernel *kernel, const unsigned grid[3], const unsigned block[3],
                     size_t dynamic_shared, const void *packed, size_t packed_bytes, hc_stream *stream, int cooperative,
                     const unsigned cluster[3], int programmatic) {
    Launch launch{};
    int expected = describe_launch(kernel, grid, block, launch);
    if ((size_t)expected != packed_bytes)
        return set_error(HC_INVALID, "kernel %s takes %d bytes of arguments, not %zu", launch.kernel, expected, packed_bytes);
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        threads *= block[i];
        blocks *= grid[i];
    }
    if (threads == 0 || threads > 1024 || blocks == 0 || dynamic_shared > shared_limit)
        return set_error(HC_INVALID, "kernel %s cannot be launched with grid (%u,%u,%u), block (%u,%u,%u) "
                         "and %zu bytes of dynamic shared memory", launch.kernel, grid[0], grid[1], grid[2],
                         block[0], block[1], block[2], dynamic_shared);
    if (launch.shared->bytes > static_limit)
        return set_error(HC_INVALID, "kernel %s has %zu MB of static shared memory", launch.kernel, launch.shared->bytes >> 20);
    launch.grid = {grid[0], grid[1], grid[2]};
    launch.block = {block[0], block[1], block[2]};
    launch.dynamic_shared = dynamic_shared;
    launch.programmatic = programmatic;
    unsigned per_cluster = 1;
    constexpr unsigned most_per_cluster = 16;
    const unsigned declared[] = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    for (int i = 0; i < 3; i++) {
        unsigned size = cluster[i] ? cluster[i] : declared[i];
        if (cluster[i] && declared[0] * declared[1] * declared[2] > 1 && cluster[i] != declared[i])
            return set_error(HC_INVALID, "kernel %s has __cluster_dims__(%u, %u, %u), and is launched in clusters of (%u,%u,%u) blocks",
                             launch.kernel, declared[0], declared[1], declared[2], cluster[0], cluster[1], cluster[2]);
        if (!size || size > most_per_cluster)
            return set_error(HC_INVALID, "kernel %s: a cluster has 1 to %u blocks, and here %u along %c", launch.kernel, most_per_cluster, size, "xyz"[i]);
        if (grid[i] % size)
            return set_error(HC_INVALID, "kernel %s: the grid, of (%u,%u,%u) blocks, is not divided by its clusters, which have %u along %c",
                             launch.kernel, grid[0], grid[1], grid[2], size, "xyz"[i]);
        (&launch.cluster.x)[i] = size;
        per_cluster *= size;
    }
    if (per_cluster > most_per_cluster)
        return set_error(HC_INVALID, "kernel %s: a cluster of %u blocks, of which a GPU has at most %u", launch.kernel, per_cluster, most_per_cluster);
    if (cooperative && per_cluster > 1) return set_error(HC_INVALID, "kernel %s: the CPU engine has no cooperative launch of clusters", launch.kernel);
    if (cooperative || per_cluster > 1) {
        launch.cooperative = cooperative;
        launch.loops = nullptr;
        launch.shared = launch.fibers_shared;
        launch.block_seconds = nullptr;
    }
    Operation *op = new Operation(::kernel);
    op->pieces = cooperative ? 1 : blocks / per_cluster;
    op->launch = launch;
    constexpr size_t widest = 128;         // alignment of a parameter; vectors of eight doubles have 64
    op->arguments.resize(packed_bytes + widest);
    char *arguments = op->arguments.data() + -(uintptr_t)op->arguments.data() % widest;
    memcpy(arguments, packed, packed_bytes);
    op->launch.arguments = arguments;
    return enqueue(op, stream);
}

EXPORT int hc_memcpy(void *to, const void *from, size_t bytes, hc_stream *stream, int wait,
                     const char *what) {
    std::string why;
    if (bytes && what[3] == 'D' && !in_device_memory(to, bytes, why))
        return set_error(HC_INVALID, "%s copy to %s", what, why.c_str());
    if (bytes && what[0] == 'D' && !in_device_memory(from, bytes, why))
        return set_error(HC_INVALID, "%s copy from %s", what, why.c_str());
    Operation *op = new Operation(copy);
    op->to = (char *)to;
    op->from = (const char *)from;
    op->bytes = bytes;
    op->what = !strcmp(what, "HtoD") ? "HtoD" : !strcmp(what, "DtoH") ? "DtoH" : "DtoD";
    bool overlaps = op->to < op->from + bytes && op->from < op->to + bytes;
    op->pieces = bytes <= copy_piece || overlaps ? 1 : (bytes + copy_piece - 1) / copy_piece;
    if (checking) op->value = watch_copy();
    int status = enqueue(op, stream);
    return status == HC_OK && wait ? synchronize(stream_or_default(stream), -1) : status;
}

EXPORT int hc_memset(void *to, uint32_t value, int width, size_t count, hc_stream *stream, int wait) {
    std::string why;
    if (width != 1 && width != 2 && width != 4)
        return set_error(HC_INVALID, "memset fills elements of 1, 2 or 4 bytes, not %d", width);
    if ((uintptr_t)to % width)
        return set_error(HC_INVALID, "memset of %d-byte elements at %p, which is not aligned", width, to);
    if (count && !in_device_memory(to, count * width, why)) return set_error(HC_INVALID, "memset of %s", why.c_str());
    Operation *op = new Operation(fill);
    op->to = (char *)to;
    op->bytes = count * width;
    op->value = value;
    op->width = width;
    op->what = "memset";
    op->pieces = op->bytes <= copy_piece ? 1 : (op->bytes + copy_piece - 1) / copy_piece;
    int status = enqueue(op, stream);
    return status == HC_OK && wait ? synchronize(stream_or_default(stream), -1) : status;
}

#ifdef HOSTCUDA_CHECK
// From the next launch on, this block of a grid runs first, and then those after it, in a circle.
extern "C" EXPORT void hc_begin_with(uint64_t block) { first_block = block; }
#endif

EXPORT int hc_stream_create(int non_blocking, hc_stream **stream) {
    Lock lock(pool.mutex);
    *stream = new hc_stream{pool.next_stream++, non_blocking != 0};
    pool.streams.push_back(*stream);
    watch_stream((*stream)->number, non_blocking != 0);
    return HC_OK;
}

EXPORT int hc_stream_destroy(hc_stream *stream) {
    Lock lock(pool.mutex);
    stream->destroyed = true;
    if (pool.default_stream.error.empty()) pool.default_stream.error = stream->error;
    advance();
    return HC_OK;
}

EXPORT int hc_stream_synchronize(hc_stream *stream, double timeout_s) {
    return synchronize(stream_or_default(stream), timeout_s);
}

EXPORT int hc_stream_query(hc_stream *stream) { return synchronize(stream_or_default(stream), 0); }

EXPORT int hc_synchronize(double timeout_s) { return synchronize(nullptr, timeout_s); }

EXPORT int hc_event_create(hc_event **event) {
    *event = new hc_event;
    return HC_OK;
}

EXPORT int hc_event_destroy(hc_event *event) {
    Lock lock(pool.mutex);
    drop(event->latest);
    delete event;
    return HC_OK;
}

EXPORT int hc_event_record(hc_event *event, hc_stream *stream) {
    Operation *op = new Operation(record);
    op->event = new Record{false, 0, 2};
    {
        Lock lock(pool.mutex);
        drop(event->latest);
        event->latest = op->event;
        event->stream = stream_or_default(stream);
    }
    return enqueue(op, stream);
}

EXPORT int hc_stream_wait_event(hc_stream *stream, hc_event *event) {
    Lock lock(pool.mutex);
    if (!event->latest) return HC_OK;     // never recorded: nothing to wait for
    Operation *op = new Operation(wait_event);
    op->event = use(event->latest);
    lock.unlock();
    return enqueue(op, stream);
}

EXPORT int hc_event_synchronize(hc_event *event, double timeout_s) {
    Lock lock(pool.mutex);
    if (!event->latest) return HC_OK;
    Record *record = use(event->latest);
    bool reached = wait_until(lock, timeout_s, [&] { return record->done; });
    if (reached) watch_reached(record->clock);
    drop(record);
    return reached ? take_error(event->stream) : set_error(HC_NOT_READY, "the event is not reached yet");
}

EXPORT int hc_event_query(hc_event *event) { return hc_event_synchronize(event, 0); }

EXPORT int hc_event_elapsed_ms(hc_event *start, hc_event *end, double *milliseconds) {
    Lock lock(pool.mutex);
    if (!start->latest || !end->latest)
        return set_error(HC_INVALID, "an event that was never recorded has no time");
    if (!start->latest->done || !end->latest->done)
        return set_error(HC_NOT_READY, "the event is not reached yet");
    *milliseconds = (end->latest->time - start->latest->time) * 1e3;
    return HC_OK;
}

EXPORT int hc_abort(void) {
    Lock lock(pool.mutex);
    if (pool.forked) return HC_OK;
    for (hc_stream *stream : pool.streams) {
        Queue<Operation> all;
        all.take_all(stream->queue);
        while (all.head) {
            Operation *op = all.pop();
            if (op->active) {
                op->aborted = true;
                op->cancelled = true;
                stream->queue.push(op);
            } else {
                if (op->kind == record) op->event->done = true, op->event->time = now();
                discard(op);
            }
        }
    }
    uint64_t last = pool.next_number - 1;
    wait_until(lock, -1, [&] { return passed(nullptr, last); });
    watch_over();
    return HC_OK;
}

EXPORT void hc_trace(int on) {
    Lock lock(pool.mutex);
    pool.tracing = on != 0;
    if (!on) pool.trace.clear(), pool.taken = 0;
}

EXPORT size_t hc_trace_take(hc_record *records, size_t count) {
    Lock lock(pool.mutex);
    size_t taken = 0;
    while (taken < count && pool.taken < pool.trace.size()) records[taken++] = pool.trace[pool.taken++];
    if (pool.taken == pool.trace.size()) pool.trace.clear(), pool.taken = 0;
    return taken;
}
