/* SPDX-License-Identifier: Apache-2.0 */
/* The fake broker's lease segments: made, sealed and checked as the real one does. */
#include "tests/support/fake_broker/fake_broker_internal.h"

#include "wire/base/assert.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void say_opened(struct fake_broker *fake, uint64_t id, uint64_t segment, uint64_t size,
                       int fd)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__LeaseOpened opened;
    amb__control__lease_opened__init(&opened);
    opened.segment = segment;
    opened.size = size;
    message.id = id;
    message.lease_opened = &opened;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPENED;
    fake_say(fake->control, &message, &fd, 1);
}

void fake_lease_open(struct fake_broker *fake, const Amb__Control__Control *request)
{
    uint64_t slot = request->lease_open->slot, slots = request->lease_open->slots;
    amb_assert(slot % 4096 == 0 && slot != 0 && slots != 0);
    amb_assert(fake->seen.lease_bytes + slot * slots <= fake->options.lease_bytes);
    fake->seen.leases_opened++;
    if (fake->options.refuses_leases) {
        fake_say_error(fake->control, request->id, AMB_ELIMIT, "no memory for leases");
        return;
    }
    unsigned i = 0;
    while (fake->leases[i].base != NULL) {
        i++;
        amb_assert(i < FAKE_LEASES);
    }
    int fd = memfd_create("fake-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    amb_assert(fd >= 0 && ftruncate(fd, (off_t)(slot * slots)) == 0);
    amb_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    void *base = mmap(NULL, slot * slots, PROT_READ, MAP_SHARED, fd, 0);
    amb_assert(base != MAP_FAILED);
    fake->seen.lease_bytes += slot * slots;
    fake->leases[i].slot = slot;
    fake->leases[i].slots = slots;
    fake->leases[i].base = base;
    fake->leases[i].fd = fd;
    say_opened(fake, request->id, FAKE_LEASE_ID + i, slot * slots, fd);
}

void fake_lease_mapped(struct fake_broker *fake, const Amb__Control__Control *request)
{
    uint64_t i = request->lease_mapped->segment - FAKE_LEASE_ID;
    amb_assert(i < FAKE_LEASES && fake->leases[i].base != NULL && !fake->leases[i].is_mapped);
    /* The client's mapping is the last one that writes. */
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    amb_assert(fcntl(fake->leases[i].fd, F_ADD_SEALS, seals) == 0);
    fake->leases[i].is_mapped = true;
    fake->seen.leases_mapped++;
    fake_say_ok(fake, fake->control, request->id);
}

void fake_lease_close(struct fake_broker *fake, uint64_t segment)
{
    uint64_t i = segment - FAKE_LEASE_ID;
    amb_assert(i < FAKE_LEASES && fake->leases[i].base != NULL && !fake->leases[i].is_closed);
    fake->leases[i].is_closed = true;
    fake->seen.leases_closed++;
    fake->seen.lease_bytes -= fake->leases[i].slot * fake->leases[i].slots;
}

void fake_lease_commit(struct fake_broker *fake, const struct amb_frame *frame, const uint8_t *meta)
{
    struct fake_seen *seen = &fake->seen;
    uint64_t i = frame->segment - FAKE_LEASE_ID;
    amb_assert(i < FAKE_LEASES && fake->leases[i].is_mapped && !fake->leases[i].is_closed);
    uint64_t size = fake->leases[i].slot * fake->leases[i].slots;
    amb_assert(amb_leased_check(frame, meta, size) == AMB_OK);
    amb_assert(frame->number == seen->commit_number + 1);
    seen->commit_number = frame->number;
    seen->commits[frame->handle]++;
    seen->commit_msgs[frame->handle] += frame->count;
    const uint64_t *offsets = amb_leased_offsets(meta, frame->count);
    for (uint32_t n = 0; n < frame->count; n++) {
        amb_assert(offsets[n] % fake->leases[i].slot == 0);
    }
    seen->last_segment = frame->segment;
    seen->last_offset = offsets[frame->count - 1];
    struct amb_record record;
    memcpy(&record, meta + (frame->count - 1) * sizeof(record), sizeof(record));
    uint64_t len = record.len < sizeof(seen->last) ? record.len : sizeof(seen->last);
    memcpy(seen->last, fake->leases[i].base + seen->last_offset, len);
    uint64_t meta_len = frame->meta_len < 256 ? frame->meta_len : 256;
    memcpy(seen->last_meta, meta, meta_len);
    if (!fake->is_freed_held) {
        amb_link_flow(fake->link, AMB_FLOW_FREED, 0, frame->number);
    }
}

void fake_leases_fini(struct fake_broker *fake)
{
    for (unsigned i = 0; i < FAKE_LEASES; i++) {
        if (fake->leases[i].base != NULL) {
            (void)munmap(fake->leases[i].base, fake->leases[i].slot * fake->leases[i].slots);
            (void)close(fake->leases[i].fd);
        }
    }
}
