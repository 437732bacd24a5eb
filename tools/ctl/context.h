/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: a broker's URL and what belongs to it under a name, one file each in
 * $XDG_CONFIG_HOME/ambroker (else ~/.config/ambroker). A file is its owner's alone, and has no
 * secrets: credentials are named by their path.
 *   NAME.context   lines "url = ...", "credentials = ...", "client-name = ..."; '#': a comment
 *   chosen         the name of the context that holds without --context
 * Threads: any. Memory: amb_context_fini.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_CONTEXT_NAME_MAX 64u
#define AMB_CONTEXT_PATH_MAX 512u
#define AMB_CONTEXT_WHY_MAX 640u
#define AMB_CONTEXT_SUFFIX ".context" /* of the name of a file */

struct amb_context {
    char *text;                                  /* the others point into it */
    const char *url, *credentials, *client_name; /* NULL: it does not say */
};

/* Letters, digits, '-', '_' and '.', which does not come first. */
bool amb_context_name_is(const char *name);
/* The folder, of AMB_CONTEXT_PATH_MAX bytes. False: there is no home, or its path is too long. */
bool amb_context_folder(char *out);
/* folder/name.context; the same. */
bool amb_context_path(const char *name, char *out);
/* folder/chosen; the same. */
bool amb_context_chosen_path(char *out);
/* Takes a file's text apart, and keeps it. False: why has "PATH:LINE: ...". `text` is freed then.
 */
bool amb_context_parse(char *text, const char *path, struct amb_context *out,
                       char why[AMB_CONTEXT_WHY_MAX]);
/* Reads one. False: why begins with the path, and has the line where there is one. */
bool amb_context_read(const char *name, struct amb_context *out, char why[AMB_CONTEXT_WHY_MAX]);
void amb_context_fini(struct amb_context *context);
/* The chosen one's name, of AMB_CONTEXT_NAME_MAX + 1 bytes; empty: none is. False: the file that
 * says it is wrong. */
bool amb_context_chosen(char *out, char why[AMB_CONTEXT_WHY_MAX]);
