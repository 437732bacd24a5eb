/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: one HTML file, which the build makes of page/ and dygraphs (cmake/AmbPage.cmake). Its
 * policy allows its own scripts and styles, by their hashes, and nothing from elsewhere.
 *
 * Threads: init where the broker starts, then any. Memory: static.
 */
#pragma once

#include "wire/base/status.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define AMB_PAGE_POLICY_MAX 1024u

struct amb_http_page {
    char policy[AMB_PAGE_POLICY_MAX]; /* "": built without the page (-DAMB_PAGE=OFF) */
};

/* EINTERNAL: no memory for hashes. */
AMB_MUST_CHECK enum amb_status amb_http_page_init(struct amb_http_page *page);
/* The page, as it is or as gzip; NULL: there is none, or no memory. */
struct MHD_Response *amb_http_page_response(const struct amb_http_page *page, bool is_gzip);
/* The policy for a page's text: the hash of each <script> and <style>. False: it does not fit. */
bool amb_http_page_policy(const char *html, size_t len, char *out, size_t size);

/* Made by the build. */
extern const unsigned char amb_http_page_html[], amb_http_page_gzip[];
extern const size_t amb_http_page_html_len, amb_http_page_gzip_len;
