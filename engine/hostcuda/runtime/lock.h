// A mutex, and waiting for a condition. The C++ library's take a quarter of the runtime's time to compile, which the first
// kernel on a fresh machine waits for.
#pragma once
#include <pthread.h>
#include <time.h>

struct Mutex {
    pthread_mutex_t of = PTHREAD_MUTEX_INITIALIZER;
};

class Lock {
public:
    explicit Lock(Mutex &mutex) : mutex(mutex.of) { lock(); }
    ~Lock() { if (held) unlock(); }
    Lock(const Lock &) = delete;
    void lock() { pthread_mutex_lock(&mutex), held = true; }
    bool try_lock() { return held = !pthread_mutex_trylock(&mutex); }
    void unlock() { held = false, pthread_mutex_unlock(&mutex); }

private:
    friend struct Condition;
    pthread_mutex_t &mutex;
    bool held;
};

struct Condition {
    pthread_cond_t of;

    Condition() {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&of, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    void wait(Lock &lock) { pthread_cond_wait(&of, &lock.mutex); }
    // False: the time passed before it was notified.
    bool wait_for(Lock &lock, double seconds) {
        timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        long nanoseconds = until.tv_nsec + (long)((seconds - (long)seconds) * 1e9);
        until.tv_sec += (long)seconds + nanoseconds / 1000000000;
        until.tv_nsec = nanoseconds % 1000000000;
        return !pthread_cond_timedwait(&of, &lock.mutex, &until);
    }
    void notify_one() { pthread_cond_signal(&of); }
    void notify_all() { pthread_cond_broadcast(&of); }
};
