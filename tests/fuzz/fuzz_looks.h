/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's files for fuzz targets. A look reads this machine's UCX, /proc and /sys by a thread
 * of its own, and no input can change the rows. So the first look of the process is a real one, and
 * its rows serve all others. /proc is read each time, for the clients decide what is asked. A look
 * that is held answers when the target says so, because files may be slow.
 *
 * A target that includes it is linked by amb_fuzz_looks of CMakeLists.txt.
 * Threads: one. Memory: a look until it is taken; the rows go with the process.
 */
#pragma once

#include "broker/doctor/doctor_files.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/base/list.h"

#include <poll.h>

struct fuzz_look {
    struct amb_mail mail;
    struct amb_inbox *to;
    amb_mail_fn done;
    void *context;
    struct amb_doctor_proc proc;
    bool is_posted;
};

static struct {
    json_t *rows;                                  /* of this machine */
    struct fuzz_look *looks[AMB_DOCTOR_LOOKS_MAX]; /* not taken yet; holes are NULL */
    bool holds;                                    /* looks that begin from here on, */
    unsigned held;                                 /* ... and so many wait for that */
} fuzz_files;

/* The linker's names of doctor_files.h's functions, and of others that stand in for them. */
struct amb_doctor_look *__real_amb_doctor_look_begin(const struct amb_doctor_files *files,
                                                     struct amb_inbox *to, amb_mail_fn done,
                                                     void *context);
void *__real_amb_doctor_look_take(struct amb_mail *mail, json_t **rows,
                                  struct amb_doctor_proc *proc);
struct amb_doctor_look *__wrap_amb_doctor_look_begin(const struct amb_doctor_files *files,
                                                     struct amb_inbox *to, amb_mail_fn done,
                                                     void *context);
void *__wrap_amb_doctor_look_take(struct amb_mail *mail, json_t **rows,
                                  struct amb_doctor_proc *proc);
bool __wrap_amb_doctor_look_leave(struct amb_doctor_look *look);

FUZZ_PLAIN static inline void fuzz_files_seen(struct amb_mail *mail, void *owner)
{
    struct amb_doctor_proc proc;
    (void)owner;
    (void)__real_amb_doctor_look_take(mail, &fuzz_files.rows, &proc);
}

/* A real look. */
FUZZ_PLAIN static inline void fuzz_files_see(const struct amb_doctor_files *files)
{
    struct amb_inbox inbox;
    amb_assert(amb_inbox_init(&inbox, NULL) == AMB_OK);
    amb_assert(__real_amb_doctor_look_begin(files, &inbox, fuzz_files_seen, NULL) != NULL);
    while (fuzz_files.rows == NULL) {
        if (amb_inbox_arm(&inbox)) {
            struct pollfd bell = {.fd = inbox.bell, .events = POLLIN};
            amb_assert(poll(&bell, 1, -1) == 1);
        }
        amb_inbox_disarm(&inbox, true);
        (void)amb_inbox_run(&inbox);
    }
    amb_inbox_fini(&inbox);
}

FUZZ_PLAIN static inline void fuzz_look_post(struct fuzz_look *look)
{
    look->is_posted = true;
    amb_mail_post(look->to, &look->mail, look->done);
}

FUZZ_PLAIN struct amb_doctor_look *
__wrap_amb_doctor_look_begin(const struct amb_doctor_files *files, struct amb_inbox *to,
                             amb_mail_fn done, void *context)
{
    unsigned place = 0;
    while (place < AMB_DOCTOR_LOOKS_MAX && fuzz_files.looks[place] != NULL) {
        place++;
    }
    if (place == AMB_DOCTOR_LOOKS_MAX) {
        return NULL;
    }
    if (fuzz_files.rows == NULL) {
        fuzz_files_see(files);
    }
    struct fuzz_look *look = malloc(sizeof(*look));
    amb_assert(look != NULL);
    *look = (struct fuzz_look){.to = to, .done = done, .context = context, .proc = files->proc};
    amb_doctor_proc_read(&look->proc, files->host.root);
    fuzz_files.looks[place] = look;
    if (fuzz_files.holds) {
        fuzz_files.held++;
    } else {
        fuzz_look_post(look);
    }
    return (struct amb_doctor_look *)look;
}

FUZZ_PLAIN static inline void fuzz_look_free(struct fuzz_look *look)
{
    for (unsigned i = 0; i < AMB_DOCTOR_LOOKS_MAX; i++) {
        if (fuzz_files.looks[i] == look) {
            fuzz_files.looks[i] = NULL;
        }
    }
    free(look);
}

FUZZ_PLAIN void *__wrap_amb_doctor_look_take(struct amb_mail *mail, json_t **rows,
                                             struct amb_doctor_proc *proc)
{
    struct fuzz_look *look = AMB_CONTAINER_OF(mail, struct fuzz_look, mail);
    void *context = look->context;
    *rows = json_deep_copy(fuzz_files.rows);
    *proc = look->proc;
    fuzz_look_free(look);
    return context;
}

FUZZ_PLAIN bool __wrap_amb_doctor_look_leave(struct amb_doctor_look *left)
{
    struct fuzz_look *look = (struct fuzz_look *)left;
    if (look->is_posted) {
        return false;
    }
    fuzz_files.held--;
    fuzz_look_free(look);
    return true;
}

/* The files answer all looks that are held. */
FUZZ_PLAIN static inline void fuzz_files_answer(void)
{
    for (unsigned i = 0; i < AMB_DOCTOR_LOOKS_MAX; i++) {
        struct fuzz_look *look = fuzz_files.looks[i];
        if (look != NULL && !look->is_posted) {
            fuzz_files.held--;
            fuzz_look_post(look);
        }
    }
}
