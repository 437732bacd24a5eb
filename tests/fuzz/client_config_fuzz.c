/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as the configuration file of a program, which may be a broker's, too. Where the first byte
 * is '-', the rest is the value of a variable of the environment. An accepted file prints as text
 * that prints the same. A refused one has a reason with a place, in an error as short as libamb's.
 */
#include "client/config/client_config.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/config/config_format.h"

#include <amb/amb.h>

/* libconfig 1.5 forgets the string it was scanning when it meets a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig";
}

static struct amb_client_config *create(const struct amb_client_source *source)
{
    struct amb_client_config *config = NULL;
    char error[sizeof(((struct amb_error *)NULL)->text)];
    memset(error, 'x', sizeof(error));
    enum amb_status status = amb_client_config_create(source, error, sizeof(error), &config);
    amb_assert(status == AMB_OK || (status == AMB_EINVAL && config == NULL));
    if (status != AMB_OK) {
        amb_assert(memchr(error, '\0', sizeof(error)) != NULL && strchr(error, '\n') == NULL);
        amb_assert(strncmp(error, "configuration", 13) == 0 ||
                   strncmp(error, "environment AMB_", 16) == 0);
    }
    return config;
}

/* To be freed. */
static char *print(const struct amb_client_config *config, size_t *len)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, len);
    amb_assert(stream != NULL);
    amb_config_rows_print(config->store, config, stream);
    amb_assert(fclose(stream) == 0);
    return text;
}

/* Without the origins, which are of another text. */
static void cut_origins(char *text)
{
    for (char *at = text; (at = strstr(at, "; # ")) != NULL;) {
        const char *end = at + strcspn(at, "\n");
        memmove(at, end, strlen(end) + 1);
    }
}

static void check_round_trip(const struct amb_client_config *config)
{
    size_t len, len_again;
    char *text = print(config, &len);
    const struct amb_client_source source = {.text = text, .text_len = len};
    struct amb_client_config *again = create(&source);
    amb_assert(again != NULL);
    char *text_again = print(again, &len_again);
    cut_origins(text);
    cut_origins(text_again);
    amb_assert(strcmp(text, text_again) == 0);
    amb_client_config_destroy(&again);
    free(text_again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = {
        "AMB_URL=", "AMB_TRUSTED=", "AMB_SPIN=", "AMB_CREDENTIALS="};
    struct amb_client_source source = {.text = (const char *)data, .text_len = len};
    char variable[4096] = "";
    const char *const environment[] = {variable, NULL};
    if (len > 1 && data[0] == '-') {
        int room = (int)sizeof(variable) - 20;
        (void)snprintf(variable, sizeof(variable), "%s%.*s", names[data[1] % 4],
                       len - 2 > (size_t)room ? room : (int)(len - 2), (const char *)data + 2);
        source = (struct amb_client_source){.environment = environment};
    }
    struct amb_client_config *config = create(&source);
    if (config != NULL) {
        check_round_trip(config);
    }
    amb_client_config_destroy(&config);
    return 0;
}
