/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: the devices that a process is shown, in the order of CUDA_VISIBLE_DEVICES. Its entries
 * are indices, or UUIDs and beginnings of them that only one device has. As with the driver, the
 * first wrong one ends the list. On parts of GPUs (FAKECUDA_MIG) a process is shown one part, that
 * of the first entry. Its name is its UUID, or "MIG-GPU-UUID/N/0" of the first GPU.
 */
#include "tests/fakecuda/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int shown[FAKE_DEVICES_MAX]; /* of each index the machine's number */

/* The device of an entry; -1: there is none, or several. */
static int device_of(const char *entry, size_t len, int devices)
{
    char *end = NULL;
    long number = len > 0 ? strtol(entry, &end, 10) : -1;
    if (end == entry + len) {
        return number >= 0 && number < devices ? (int)number : -1;
    }
    int found = -1;
    for (int i = 0; i < devices; i++) {
        char uuid[48];
        (void)snprintf(uuid, sizeof(uuid), "GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x",
                       (unsigned)i);
        if (len > 4 && strncasecmp(uuid, entry, len) == 0) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

static void show_listed(const char *list)
{
    int count = 0;
    for (const char *at = list; count < FAKE_DEVICES_MAX; at++) {
        size_t len = strcspn(at, ",");
        int device = device_of(at, len, fake.devices);
        if (device < 0) {
            break;
        }
        shown[count++] = device;
        at += len;
        if (*at == '\0') {
            break;
        }
    }
    fake.devices = count;
}

/* The number of a part; 0: it is none. */
static int part_of(const char *entry)
{
    static const char old[] = "MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/";
    size_t len = strcspn(entry, ",");
    if (strncasecmp(entry, old, sizeof(old) - 1) == 0) {
        return (int)strtol(entry + sizeof(old) - 1, NULL, 10);
    }
    return len > 6 && strncmp(entry, "MIG-", 4) == 0 ? (int)strtol(entry + len - 2, NULL, 16) : 0;
}

int fake_visible_environment(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        shown[i] = i;
    }
    if (list == NULL) {
        return 0;
    }
    if (fake_instance() == 0) {
        show_listed(list);
        return 0;
    }
    return part_of(list);
}

int fake_machine_number(int device)
{
    return device >= 0 && device < fake.devices ? shown[device] : device;
}

int fake_index_of(int number)
{
    int index = 0;
    while (index < fake.devices && shown[index] != number) {
        index++;
    }
    return index < fake.devices ? index : -1;
}
