/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address of a page, as a broker names it: checked before it is shown on a terminal.
 * Threads: any. Memory: none.
 */
#pragma once

/* A fault of it, in words. NULL: it is http or https, of a host, and has printable ASCII alone. */
const char *amb_page_url_fault(const char *url);
