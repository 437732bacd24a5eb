/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files that a message brings along. They are the sender's text: nothing of them may lead
 * out of the folder they are written to, hide a file, or overwrite one.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AMB_NAME_MAX 200u /* bytes, so that "<seq>-" and ".<n>" fit beside it in NAME_MAX */

/*
 * Makes a plain file name of `name`: its part behind the last '/', without leading dots and spaces.
 * Control characters, backslashes and DEL become '_'. The name is cut to AMB_NAME_MAX bytes at a
 * character's border. out holds AMB_NAME_MAX + 1 bytes. Returns its length; 0 if nothing is left.
 */
size_t amb_name_clean(const void *name, size_t len, char *out);

/*
 * Creates "<seq>-<clean>" in the folder `dir_fd` for writing, never following a link, never opening
 * a file that is there. If there is one, the name is "<seq>-<clean>.2" and so on. out (size bytes)
 * becomes the name taken. Returns the descriptor or -1 with errno.
 */
int amb_name_create(int dir_fd, uint64_t seq, const char *clean, char *out, size_t size);
