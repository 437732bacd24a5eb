/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_docs.h"

#include "broker/config/config_quotas.h"
#include "broker/config/config_roles.h"
#include "broker/config/config_schema.h"
#include "broker/config/config_schema_rule.h"
#include "broker/config/config_tenants.h"
#include "wire/config/config_groups.h"
#include "wire/config/config_mdoc.h"
#include "wire/config/config_reference.h"

#include <string.h>

#define ALLOWED_MAX 320u

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

/* A sentence on each group. */
static const struct {
    const char *group, *help;
} groups[] = {
    {"server", "The daemon itself."},
    {"tls", "Encrypted listeners, tls://host:port."},
    {"transports", "How bytes travel. auto uses what works here, on insists, off forbids."},
    {"memory", "Memory that messages live in, made at start and shared with local readers."},
    {"memory.host", "Main memory."},
    {"memory.cuda", "Memory of GPUs, mapped by local publishers and readers."},
    {"limits", "What clients may take."},
    {"auth", "Who may connect. Without users, Unix sockets are guarded by their mode and group."},
    {"http", "Metrics and health, for Prometheus and probes."},
    {"log", "Log lines, on standard error."},
};

static const char *group_help(const char *group)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (strcmp(groups[i].group, group) == 0) {
            return groups[i].help;
        }
    }
    return "";
}

static void example_group(const char *group, unsigned depth, const void *arg, FILE *out)
{
    (void)arg;
    (void)fprintf(out, "\n%*s# %s\n", (int)(4 * depth), "", group_help(group));
    (void)fprintf(out, "%*s%s = {\n", (int)(4 * depth), "", last_part(group));
}

/* Of the name of its group within an element; 0: it is in none. */
static size_t group_len(const struct amb_config_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot == NULL ? 0 : (size_t)(dot - key->path);
}

static bool is_of_group(const struct amb_config_key *key, const char *group, size_t len)
{
    return group_len(key) == len && strncmp(key->path, group, len) == 0;
}

static void example_element(const struct amb_config_key *keys, size_t count, FILE *out);

/* mark: "" or "# ", before the line that sets the key. */
static void example_key(const struct amb_config_key *key, unsigned depth, const void *mark,
                        FILE *out)
{
    char allowed[ALLOWED_MAX];
    int indent = (int)(4 * depth);
    const char *comment = !amb_config_has_field(key) || mark != NULL ? "# " : "";
    if (depth == 0 && mark == NULL) {
        (void)fputc('\n', out);
    }
    (void)fprintf(out, "%*s# %s%s\n", indent, "", key->not_yet ? "Not yet supported: " : "",
                  key->help);
    if (amb_config_has_field(key)) {
        amb_config_allowed(key, allowed, sizeof(allowed));
        (void)fprintf(out, "%*s# Allowed: %s. Applies: %s.\n", indent, "", allowed,
                      amb_config_apply_name(key->apply));
    }
    if (key->type != AMB_CONFIG_ELEMENTS || key->not_yet) {
        (void)fprintf(out, "%*s%s%s = ", indent, "", comment, last_part(key->path));
        amb_config_default_print(key, out);
        (void)fprintf(out, ";\n");
        return;
    }
    size_t count;
    const struct amb_config_key *keys = key->elements->keys(&count);
    (void)fprintf(out, "%s = (\n# {\n", key->path);
    example_element(keys, count, out);
    (void)fprintf(out, "# }\n);\n");
}

/* Keys of one group stand together, and in one group. */
static void example_element(const struct amb_config_key *keys, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        size_t group = group_len(&keys[i]);
        bool begins = group > 0 && (i == 0 || !is_of_group(&keys[i - 1], keys[i].path, group));
        bool ends =
            group > 0 && (i + 1 == count || !is_of_group(&keys[i + 1], keys[i].path, group));
        if (begins) {
            (void)fprintf(out, "    # %.*s = {\n", (int)group, keys[i].path);
        }
        example_key(&keys[i], group > 0 ? 2 : 1, "# ", out);
        if (ends) {
            (void)fprintf(out, "    # };\n");
        }
    }
}

void amb_config_print_example(FILE *out)
{
    static const struct amb_config_visitor visitor = {example_group, example_key};
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    (void)fprintf(
        out, "# SPDX-License-Identifier: Apache-2.0\n"
             "# Configuration of brokerd: every key with its default. Made from the schema in\n"
             "# broker/config; the reference is docs/config.md.\n"
             "# Check a file by: brokerd --config FILE --test-config\n"
             "# Sizes are \"64K\", \"64M\", \"1G\" (powers of 1024), times \"50us\", \"500ms\", "
             "\"5s\", \"2m\".\n"
             "# Command line (-o server.workers=2) beats environment "
             "(AMBROKER_SERVER_WORKERS=2) beats file.\n");
    amb_config_visit(keys, count, &visitor, NULL, out);
}

void amb_config_print_reference(FILE *out)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    (void)fprintf(
        out,
        "# Configuration reference\n\n"
        "Made from the schema in `broker/config` (`broker-config-docs reference`); edit that, not "
        "this page.\n\n"
        "- The file is that of `--config`, else of `$AMB_CONFIG`, else "
        "`/etc/ambroker/broker.conf`. It is libconfig text; "
        "`brokerd --config FILE --test-config` checks one, "
        "`--print-config` shows what holds and where it came from.\n"
        "- Command line (`-o server.workers=2`, `--listen URL`) beats environment "
        "(`AMBROKER_SERVER_WORKERS=2`) beats file beats default. Lists replace those below them; "
        "in an option or a variable they are written `a,b` or as libconfig text.\n"
        "- Sizes are `\"64K\"`, `\"64M\"`, `\"1G\"` (powers of 1024), times `\"50us\"`, "
        "`\"500ms\"`, `\"5s\"`, `\"2m\"`.\n"
        "- `@include \"name.conf\"` takes a file below the first file's folder.\n"
        "- A wrong file is refused before any socket opens, with exit status 78 and "
        "`file:line: key: reason (got X, allowed Y)`.\n"
        "- *Applies*: what a changed value holds for: after a restart, for new sessions, or "
        "live.\n\n"
        "## Keys\n\n");
    amb_config_table_print(keys, count, out);
    (void)fprintf(out, "\n## Keys of one element of `topics`\n\n"
                       "The first element whose `match` covers a topic holds for it; a topic that "
                       "none covers gets the defaults.\n\n");
    keys = amb_config_rule_keys(&count);
    amb_config_table_print(keys, count, out);
    (void)fprintf(out, "\n## Keys of one element of `roles`\n\n"
                       "A user has the rights of all its roles, and no others; "
                       "[security.md](security.md) says what each is for.\n\n");
    keys = amb_config_role_keys(&count);
    amb_config_table_print(keys, count, out);
    (void)fprintf(out, "\n## Keys of one element of `tenants`\n\n"
                       "[security.md](security.md#tenants) says what a tenant has.\n\n");
    keys = amb_config_tenant_keys(&count);
    amb_config_table_print(keys, count, out);
    (void)fprintf(out,
                  "\n## Keys of one element of `quotas`\n\n"
                  "A number each, as 8 or \"64M\"; \"none\": no limit. A key that is left out is "
                  "that of the quota \"default\", and then the built-in one. "
                  "[security.md](security.md#quotas) says what happens past a limit.\n\n");
    keys = amb_config_quota_keys(&count);
    amb_config_table_print(keys, count, out);
}

static void print_manual_head(FILE *out)
{
    (void)fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n"
                ".\\\" Made from the schema in broker/config; edit that, not this page.\n"
                ".Dd " AMB_MDOC_DATE "\n.Dt BROKER.CONF 5\n.Os\n"
                ".Sh NAME\n.Nm broker.conf\n.Nd configuration of brokerd\n"
                ".Sh DESCRIPTION\n"
                "The file is libconfig text.\n"
                "A group is written as name = { ... }, and its keys stand in it.\n"
                "Options of\n.Xr brokerd 8\ngo before variables of the environment, as\n"
                ".Ev AMBROKER_SERVER_WORKERS ,\nand these before the file.\n"
                "Sizes are written as 64K, 64M or 1G, times as 50us, 500ms, 5s or 2m.\n"
                "A wrong file is refused before any socket opens.\n"
                "The entry Applies says when a changed value holds.\n"
                ".Ss Keys\n",
                out);
}

void amb_config_print_manual(FILE *out)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    print_manual_head(out);
    amb_config_mdoc_print(keys, count, out);
    (void)fputs(".Ss Keys of one element of topics\n"
                "The first element whose match covers a topic holds for it.\n",
                out);
    keys = amb_config_rule_keys(&count);
    amb_config_mdoc_print(keys, count, out);
    (void)fputs(".Ss Keys of one element of roles\n"
                "A user has the rights of all its roles, and no others.\n",
                out);
    keys = amb_config_role_keys(&count);
    amb_config_mdoc_print(keys, count, out);
    (void)fputs(".Sh FILES\n.Bl -tag -width Ds\n.It Pa /etc/ambroker/broker.conf\n"
                "The file, unless an option or\n.Ev AMB_CONFIG\nnames another one.\n.El\n"
                ".Sh EXAMPLES\n.Dl brokerd \\-\\-config broker.conf \\-\\-test\\-config\n"
                ".Sh SEE ALSO\n.Xr broker-ctl 1 ,\n.Xr ambroker 7 ,\n.Xr brokerd 8\n",
                out);
}
