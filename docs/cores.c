/* Nanoseconds that a cache line takes from one core to another: some 40 where cores 0 and 1 share a
   third-level cache, some 200 where they do not.  Linux:

       cc -O2 -pthread docs/cores.c -o /tmp/cores && /tmp/cores */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200000 };
static _Alignas(128) atomic_int ball;

static void stay_on(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

static void *other(void *unused) {
    stay_on(1);
    for (int turn = 0; turn < ROUNDS; turn++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * turn + 1) {}
        atomic_store_explicit(&ball, 2 * turn + 2, memory_order_release);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    struct timespec start, end;
    pthread_create(&thread, NULL, other, NULL);
    stay_on(0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int turn = 0; turn < ROUNDS; turn++) {
        atomic_store_explicit(&ball, 2 * turn + 1, memory_order_release);
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * turn + 2) {}
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_join(thread, NULL);
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    printf("%.0f\n", 1e9 * seconds / ROUNDS / 2);
    return 0;
}
