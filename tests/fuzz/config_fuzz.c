/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a configuration file, and as an option where the first is '-'. An accepted text prints
 * as text that gives the same configuration; a refused one has a reason. All of it, and so slow:
 * single values run far more often in config_value.
 */
#include "broker/config/config.h"
#include "broker/config/print/config_print.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/interfaces.h"
#include "wire/base/assert.h"

#include <netdb.h>

static int resolve(const char *host)
{
    return host[0] == 'h' ? 0 : EAI_NONAME;
}

static const struct amb_config_machine machine = {
    .cores = 4,
    .ram = UINT64_C(16) << 30,
    .descriptors = UINT64_C(1) << 20,
    .host = "fuzz",
    .interfaces = &try_interfaces,
    .resolve = resolve,
};

/* libconfig 1.5 forgets the string it was scanning when it meets a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig";
}

static struct amb_config *create(const struct amb_config_source *source)
{
    struct amb_config *config = NULL;
    char error[AMB_CONFIG_ERROR_MAX];
    memset(error, 'x', sizeof(error));
    enum amb_status status = amb_config_create(source, error, sizeof(error), &config);
    amb_assert(status == AMB_OK || (status == AMB_EINVAL && config == NULL));
    amb_assert(status == AMB_OK || memchr(error, '\0', sizeof(error)) != NULL);
    return config;
}

static void check_round_trip(const struct amb_config *config)
{
    char *text = NULL, restart[256], live[256];
    size_t len;
    FILE *stream = open_memstream(&text, &len);
    amb_assert(stream != NULL);
    amb_config_print(config, stream);
    amb_assert(fclose(stream) == 0);
    struct amb_config_source source = {.text = text, .text_len = len, .machine = &machine};
    struct amb_config *again = create(&source);
    amb_assert(again != NULL);
    /* The token, which is not printed, applies to new sessions: it is in the other list. */
    amb_config_diff(config, again, restart, sizeof(restart), live, sizeof(live));
    amb_assert(restart[0] == '\0');
    amb_config_destroy(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct amb_config_source source = {.machine = &machine};
    char *text = fuzz_text(data, len);
    const char *const options[] = {text + (len > 0)};
    if (len > 0 && data[0] == '-') {
        source.options = options;
        source.option_count = 1;
    } else {
        source.text = (const char *)data;
        source.text_len = len;
    }
    struct amb_config *config = create(&source);
    if (config != NULL) {
        check_round_trip(config);
        (void)amb_config_topic(config, "camera.left");
    }
    amb_config_destroy(&config);
    free(text);
    return 0;
}
