/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the bytes of the page, with -DAMB_PAGE=OFF. */
#include "broker/http/page.h"

const unsigned char amb_http_page_html[] = {0}, amb_http_page_gzip[] = {0};
const size_t amb_http_page_html_len = 0, amb_http_page_gzip_len = 0;
