/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/net/tcp tells the inode of the socket that listens on a port, /proc/PID/fd which process
 * has that inode open.
 */
#include "broker/control/portowner.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_LISTEN 0x0au

/* 0: no listener on that port in this table. */
static unsigned long listener_inode(const char *table, uint16_t port)
{
    FILE *file = fopen(table, "re");
    if (file == NULL) {
        return 0;
    }
    char line[512];
    unsigned long found = 0;
    while (found == 0 && fgets(line, sizeof(line), file) != NULL) {
        unsigned local = 0, state = 0;
        unsigned long inode = 0;
        /* "sl: address:port address:port state queues timer retransmits uid timeout inode" */
        if (sscanf(line, " %*[0-9]: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &local,
                   &state, &inode) == 3 &&
            local == port && state == STATE_LISTEN) {
            found = inode;
        }
    }
    (void)fclose(file);
    return found;
}

static bool process_has(const char *pid, const char *socket_name)
{
    char path[288];
    (void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return false;
    }
    bool has_it = false;
    const struct dirent *entry;
    while (!has_it && (entry = readdir(folder)) != NULL) {
        char target[64];
        ssize_t len = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        if (len > 0) {
            target[len] = '\0';
            has_it = strcmp(target, socket_name) == 0;
        }
    }
    (void)closedir(folder);
    return has_it;
}

pid_t amb_port_owner(uint16_t port)
{
    unsigned long inode = listener_inode("/proc/net/tcp", port);
    if (inode == 0) {
        inode = listener_inode("/proc/net/tcp6", port);
    }
    DIR *processes = inode == 0 ? NULL : opendir("/proc");
    if (processes == NULL) {
        return 0;
    }
    char socket_name[48];
    (void)snprintf(socket_name, sizeof(socket_name), "socket:[%lu]", inode);
    pid_t owner = 0;
    const struct dirent *entry;
    while (owner == 0 && (entry = readdir(processes)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            process_has(entry->d_name, socket_name)) {
            owner = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    (void)closedir(processes);
    return owner;
}
