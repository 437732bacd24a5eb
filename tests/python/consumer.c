/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array library of the test's own: it takes DLPack arrays apart, and gives them back from a
 * thread that Python does not know.
 */
#include <dlpack/dlpack.h>
#include <pthread.h>
#include <string.h>

#define DIMS 8

#define SHOWN __attribute__((visibility("default")))

/* As ctypes has it in cuda_test.py. */
struct seen {
    uint32_t major, minor;
    uint64_t flags;
    int32_t device_type, device_id;
    int32_t ndim, code, bits, lanes;
    int64_t shape[DIMS], strides[DIMS];
    uint64_t address;
};

/* Of before version 1; the standard's layout. */
struct unversioned {
    DLTensor tensor;
    void *manager_ctx;
    void (*deleter)(struct unversioned *self);
};

SHOWN void consumer_look(const void *managed, int is_versioned, struct seen *out);
SHOWN void consumer_look(const void *managed, int is_versioned, struct seen *out)
{
    const struct DLManagedTensorVersioned *versioned = managed;
    const struct unversioned *old = managed;
    const DLTensor *tensor = is_versioned ? &versioned->dl_tensor : &old->tensor;
    memset(out, 0, sizeof(*out));
    if (is_versioned) {
        out->major = versioned->version.major;
        out->minor = versioned->version.minor;
        out->flags = versioned->flags;
    }
    out->device_type = (int32_t)tensor->device.device_type;
    out->device_id = tensor->device.device_id;
    out->ndim = tensor->ndim;
    out->code = tensor->dtype.code;
    out->bits = tensor->dtype.bits;
    out->lanes = tensor->dtype.lanes;
    for (int i = 0; i < tensor->ndim && i < DIMS; i++) {
        out->shape[i] = tensor->shape[i];
        out->strides[i] = tensor->strides != NULL ? tensor->strides[i] : 0;
    }
    out->address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
}

static void *delete_versioned(void *managed)
{
    struct DLManagedTensorVersioned *versioned = managed;
    versioned->deleter(versioned);
    return NULL;
}

static void *delete_unversioned(void *managed)
{
    struct unversioned *old = managed;
    old->deleter(old);
    return NULL;
}

/* Returns once a thread of its own has given the array back. */
SHOWN int consumer_delete(void *managed, int is_versioned);
SHOWN int consumer_delete(void *managed, int is_versioned)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, is_versioned ? delete_versioned : delete_unversioned,
                                managed);
    return failed != 0 ? failed : pthread_join(thread, NULL);
}
