/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: the memory of a machine's devices, whoever has it. A driver counts it for all processes
 * together. An allocation is charged until its exporter has freed it, or has died, and its last
 * import is closed, or has died with its process.
 *
 *   FAKECUDA_MACHINE ─► a file, mapped: one hold for each allocation and each import
 *   byte 0 of it, locked: the holds are being looked at        byte N: process N lives
 *
 * The kernel gives a process's record locks back when the process ends, however it ends. So no hold
 * outlives its process. Without the variable a process is a machine of its own.
 *
 * Threads: the caller has the library's lock. Memory: one mapping.
 */
#include "tests/fakecuda/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOLDS_MAX 4096

struct hold {
    pid_t pid;   /* 0: none */
    pid_t owner; /* the exporter; pid's own of an allocation */
    int device;
    uint64_t id, size;
};

static struct machine {
    uint64_t faults;
    pid_t alone[FAKE_DEVICES_MAX]; /* the process that has it to itself */
    struct hold holds[HOLDS_MAX];
} * machine;
static int machine_fd = -1;
static unsigned long faults; /* of this process alone, where it is a machine of its own */
static pid_t known_as;       /* the process that has told that it lives */

static int lock_byte(off_t byte, short type, int command, struct flock *out)
{
    *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;
    do {
        rc = fcntl(machine_fd, command, out);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

static bool lives(pid_t pid)
{
    struct flock lock;
    return pid == getpid() ||
           (lock_byte(pid, F_WRLCK, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
}

/* Drops what the dead had. */
static void sweep(void)
{
    for (struct hold *hold = machine->holds; hold < machine->holds + HOLDS_MAX; hold++) {
        if (hold->pid != 0 && !lives(hold->pid)) {
            hold->pid = 0;
        }
    }
}

static void begin(void)
{
    struct flock lock;
    (void)lock_byte(0, F_WRLCK, F_SETLKW, &lock);
    if (known_as != getpid()) { /* The first time, or a child of a process that had it. */
        known_as = getpid();
        (void)lock_byte(known_as, F_WRLCK, F_SETLKW, &lock);
        for (struct hold *hold = machine->holds; hold < machine->holds + HOLDS_MAX; hold++) {
            hold->pid = hold->pid == known_as ? 0 : hold->pid;
        }
    }
}

static void end(void)
{
    struct flock lock;
    (void)lock_byte(0, F_UNLCK, F_SETLK, &lock);
}

void fake_machine_open(const char *path)
{
    if (path == NULL || *path == '\0' || machine != NULL) {
        return;
    }
    machine_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *map =
        machine_fd >= 0 && ftruncate(machine_fd, (off_t)sizeof(*machine)) == 0
            ? mmap(NULL, sizeof(*machine), PROT_READ | PROT_WRITE, MAP_SHARED, machine_fd, 0)
            : MAP_FAILED;
    if (map == MAP_FAILED) {
        (void)fprintf(stderr, "fakecuda: FAKECUDA_MACHINE: %s: %s\n", path, strerror(errno));
        abort(); /* A test that asked for it would prove nothing. */
    }
    machine = map;
}

static bool is_same(const struct hold *a, const struct hold *b)
{
    return a->pid != 0 && b->pid != 0 && a->owner == b->owner && a->id == b->id;
}

/* Is it an allocation that an earlier hold has shown? */
static bool is_counted(const struct hold *hold)
{
    const struct hold *at = machine->holds;
    while (at != hold && !is_same(at, hold)) {
        at++;
    }
    return at != hold;
}

size_t fake_machine_used(int device)
{
    if (machine == NULL) {
        return fake.memory_used[device];
    }
    device = fake_machine_number(device);
    size_t used = 0;
    begin();
    sweep();
    for (struct hold *hold = machine->holds; hold < machine->holds + HOLDS_MAX; hold++) {
        if (hold->pid != 0 && hold->device == device && !is_counted(hold)) {
            used += hold->size;
        }
    }
    end();
    return used;
}

static uint64_t id_of(const struct fake_memory *memory)
{
    return memory->inode != 0 ? (uint64_t)memory->inode : (uint64_t)memory->base;
}

void fake_machine_hold(const struct fake_memory *memory)
{
    if (machine == NULL) {
        return;
    }
    begin();
    struct hold *hold = machine->holds;
    while (hold->pid != 0) {
        if (++hold == machine->holds + HOLDS_MAX) {
            (void)fprintf(stderr, "fakecuda: too many allocations on the machine\n");
            abort();
        }
    }
    *hold = (struct hold){.pid = getpid(),
                          .owner = memory->owner != 0 ? memory->owner : getpid(),
                          .device = fake_machine_number(memory->device),
                          .id = id_of(memory),
                          .size = memory->size};
    end();
}

bool fake_machine_claim(int device)
{
    if (machine == NULL) {
        return true;
    }
    device = fake_machine_number(device);
    begin();
    pid_t owner = machine->alone[device];
    bool is_free = owner == 0 || owner == getpid() || !lives(owner);
    machine->alone[device] = is_free ? getpid() : owner;
    end();
    return is_free;
}

void fake_machine_fault(const char *what)
{
    faults++;
    (void)fprintf(stderr, "fakecuda: process %d %s\n", (int)getpid(), what);
    if (machine != NULL) {
        begin();
        machine->faults++;
        end();
    }
}

/* The owner frees what others have open: to a driver that is undefined. */
static void note_fault(const struct hold *freed)
{
    for (struct hold *hold = machine->holds; hold < machine->holds + HOLDS_MAX; hold++) {
        if (is_same(hold, freed) && hold->pid != freed->pid && lives(hold->pid)) {
            machine->faults++;
            (void)fprintf(stderr, "fakecuda: process %d frees memory that process %d has open\n",
                          (int)freed->pid, (int)hold->pid);
            return;
        }
    }
}

void fake_machine_let_go(const struct fake_memory *memory)
{
    if (machine == NULL) {
        return;
    }
    pid_t owner = memory->owner != 0 ? memory->owner : getpid();
    begin();
    struct hold *hold = machine->holds;
    while (hold < machine->holds + HOLDS_MAX &&
           (hold->pid != getpid() || hold->owner != owner || hold->id != id_of(memory))) {
        hold++;
    }
    if (hold < machine->holds + HOLDS_MAX) { /* Else a child's, which has a copy of the list. */
        if (hold->owner == hold->pid) {
            note_fault(hold);
        }
        hold->pid = 0;
    }
    end();
}

uint64_t fakecuda_used(int device)
{
    (void)pthread_mutex_lock(&fake.lock);
    uint64_t used = fake_machine_used(device);
    (void)pthread_mutex_unlock(&fake.lock);
    return used;
}

unsigned long fakecuda_faults(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned long count = machine != NULL ? (unsigned long)machine->faults : faults;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}
