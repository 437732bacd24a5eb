/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd: command line, configuration, surroundings, then the broker until it has ended; or the
 * doctor before a start.
 * One line on standard output when it is ready: "ready URL URL ...". Everything else is a log line
 * on standard error. Exit statuses are sysexits: 64 usage, 69 unavailable, 78 configuration.
 */
#include "broker/base/log_fold.h"
#include "broker/base/notify.h"
#include "broker/broker.h"
#include "broker/command_line.h"
#include "broker/config/config.h"
#include "broker/config/print/config_print.h"
#include "broker/control/clients/hooks.h"
#include "broker/count/log_lines.h"
#include "broker/doctor/doctor_start.h"
#include "broker/eof.h"
#include "broker/quick.h"
#include "broker/resources.h"
#include "broker/settings.h"
#include "broker/signals.h"
#include "tools/cli/tables.h"
#include "tools/common/findings.h"
#include "wire/auth/crypto.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"
#include "wire/base/log.h"
#include "wire/base/utf8.h"
#include "wire/config/config_faults.h"
#include "wire/config/transports.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

extern char **environ;

#ifdef AMB_HAVE_JEMALLOC
/* jemalloc reads it when it is loaded. Few arenas: payloads live in segments, never in the heap.
 * No thread of its own: threads are counted against the cores for spinning. */
extern const char *malloc_conf;
__attribute__((visibility("default"))) const char *malloc_conf =
    "narenas:8,background_thread:false,dirty_decay_ms:1000,muzzy_decay_ms:0";
#endif

/* The time that a service manager is asked to grant the start, and more of it for the memory. */
#define START_US 120000000ULL
#define START_US_EACH_MIB 2000ULL

struct program {
    struct amb_command_line line;
    struct amb_settings settings;
    struct amb_broker *broker;
    struct amb_signals signals;
    struct amb_control_hooks hooks;
    struct amb_inbox jobs; /* for the configuration, of clients */
    bool is_over;          /* the broker has ended: jobs that are left are not done */
    struct amb_notify notify;
    uint64_t reloads_upto; /* so many of those that clients asked for were answered */
    int out;               /* for the ready line; -1: none */
};

static int show_version(void)
{
    uint32_t ucx = amb_ucx_release();
    (void)printf("brokerd %s", AMB_VERSION);
    if (ucx == 0) {
        (void)printf(" (without UCX)\n");
    } else {
        (void)printf(" (UCX %u.%u.%u)\n", ucx >> 16, (ucx >> 8) & 0xff, ucx & 0xff);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int show_help(void)
{
    amb_command_line_help(stdout);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void on_drain(void *arg)
{
    struct program *program = arg;
    amb_broker_drain(program->broker);
}

/* Answers and events are JSON, which is UTF-8. A value, or the path of a file, may be in something
 * else. */
static void make_utf8(char *text)
{
    uint32_t code;
    for (uint8_t *at = (uint8_t *)text; *at != '\0';) {
        size_t len = amb_utf8_decode(at, AMB_UTF8_MAX, &code);
        *at = len == 0 ? '?' : *at;
        at += len == 0 ? 1 : len;
    }
}

/* Those that result->text only counts. It has all keys that need a restart. */
static void log_faults(const json_t *rows)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *place = json_string_value(json_object_get(row, "place"));
        const char *key = json_string_value(json_object_get(row, "key"));
        const char *why = json_string_value(json_object_get(row, "why"));
        bool is_fault = json_object_get(row, "becomes") == NULL;
        if (i > 0 && is_fault && place != NULL && key != NULL && why != NULL) {
            amb_log_answer(AMB_LOG_ERROR, "reload: %s: %s%s%s", place, key,
                           key[0] == '\0' ? "" : ": ", why);
        }
    }
}

static void on_reload(void *arg)
{
    struct program *program = arg;
    struct amb_settings_result result;
    uint64_t upto = amb_broker_reloads_asked(program->broker);
    amb_notify_send(&program->notify, "RELOADING=1\nMONOTONIC_USEC=%lld",
                    (long long)(amb_clock_monotonic_ns() / AMB_NS_PER_US));
    amb_settings_reload(&program->settings, program->broker, &result);
    make_utf8(result.text);
    /* A client has its own answer. For a signal there is the log alone, each time. */
    if (!result.is_good && upto != program->reloads_upto) {
        amb_error("%s", result.text);
    } else if (!result.is_good) {
        amb_log_answer(AMB_LOG_ERROR, "%s", result.text);
        log_faults(result.rows);
    }
    program->reloads_upto = upto;
    char *rows = result.rows == NULL ? NULL : json_dumps(result.rows, JSON_COMPACT);
    amb_broker_reloaded(program->broker, upto, result.is_good, result.text, rows);
    free(rows);
    json_decref(result.rows);
    amb_notify_send_surely(&program->notify, "READY=1"); /* Also with the former configuration. */
}

static void do_task(struct program *program, const struct amb_config_job *job,
                    struct amb_settings_result *out)
{
    struct amb_settings *settings = &program->settings;
    switch (job->task) {
    case AMB_CONFIG_TASK_SHOW:
    case AMB_CONFIG_TASK_DEFAULTS:
        amb_settings_show(settings, job->task == AMB_CONFIG_TASK_DEFAULTS, out);
        break;
    case AMB_CONFIG_TASK_DIFF:
    case AMB_CONFIG_TASK_TEST:
        amb_settings_compare(settings, job->text, job->task == AMB_CONFIG_TASK_TEST, out);
        break;
    case AMB_CONFIG_TASK_SET:
        amb_settings_set(settings, program->broker, job->text, out);
        break;
    }
}

static void job_arrived(struct amb_mail *mail, void *owner)
{
    struct program *program = owner;
    struct amb_config_job *job = AMB_CONTAINER_OF(mail, struct amb_config_job, mail);
    struct amb_settings_result result = {.text = "the broker ends"};
    if (!program->is_over) {
        do_task(program, job, &result);
        make_utf8(result.text);
    }
    job->is_done = result.is_good;
    job->note = strdup(result.text);
    job->rows = result.rows == NULL ? NULL : json_dumps(result.rows, JSON_COMPACT);
    json_decref(result.rows);
    amb_mail_post(job->to, &job->mail, job->done);
}

static void on_call(void *arg)
{
    struct program *program = arg;
    (void)amb_inbox_run(&program->jobs);
}

static void on_reopen(void *arg)
{
    struct program *program = arg;
    amb_broker_reopen_logs(program->broker);
}

/* Of clients: as if by signals. */
static void ask_to_reload(void *arg)
{
    struct program *program = arg;
    amb_signals_reload(&program->signals);
}

static void ask_to_drain(void *arg)
{
    struct program *program = arg;
    amb_signals_drain(&program->signals);
}

static void ask_for_config(void *arg, struct amb_config_job *job)
{
    struct program *program = arg;
    amb_mail_post(&program->jobs, &job->mail, job_arrived);
    amb_signals_call(&program->signals);
}

static void warn_about_environment(void)
{
    const char *name, *but;
    for (size_t i = 0; (name = amb_doctor_variable(i, &but)) != NULL; i++) {
        if (getenv(name) != NULL) {
            amb_warn("environment %s is ignored%s: the keys of transports decide", name, but);
        }
    }
}

static void say_what_starts(const struct program *program)
{
    const struct amb_config *config = program->settings.config;
    char text[256];
    const char *path = program->settings.source.path;
    amb_info("brokerd %s starts as %s with %u workers, configuration %s", AMB_VERSION,
             config->server.name, (unsigned)config->server.workers,
             path == NULL ? "built in" : path);
    amb_quick_say(config);
    struct amb_transports transports;
    bool is_known = amb_transports_init(&transports, &config->transports, config->store, "", NULL,
                                        0, NULL) == AMB_OK;
    if (is_known && !transports.has_ucx && config->transports.trusted.count != 0) {
        amb_warn("no ucx links: %s", transports.why_not);
    }
    if (is_known && transports.has_ucx) {
        amb_info("ucx links on %s%s, once a client asks: whoever reaches UCX's ports there is "
                 "trusted with this process",
                 transports.wants_closest ? "the closest of " : "", transports.net_devices);
        if (transports.has_rdma && amb_resources_memlock_warning(text, sizeof(text))) {
            amb_warn("%s", text);
        }
        warn_about_environment();
    }
    if (config->server.insecure) {
        amb_warn("server.insecure: TCP clients are not encrypted%s",
                 config->auth.token[0] == '\0' ? " and, without auth.token, anybody may connect"
                                               : "");
    }
}

/* Standard output has one line, ever. Text that a library prints there goes to standard error. The
 * descriptor for the line is the one that comes back, or -1. It stays open: its end is ours. */
static int keep_stdout(void)
{
    int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (own >= 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    }
    return own;
}

/* A closed stdout is no reason to end: the program that started us may not read it. */
static void say_ready(const struct amb_broker *broker, int out)
{
    const char *urls = amb_broker_urls(broker);
    errno = EBADF;
    if (out < 0 || dprintf(out, "ready %s\n", urls) < 0) {
        amb_warn("the ready line was not written: %s", strerror(errno));
    }
    amb_info("ready %s", urls);
}

static int exit_status_of(enum amb_status status)
{
    if (status == AMB_EUNREACHABLE) {
        return EX_UNAVAILABLE;
    }
    return status == AMB_EINVAL ? EX_CONFIG : EXIT_FAILURE;
}

static void on_eof(void *arg)
{
    struct amb_signals *signals = arg;
    amb_signals_drain(signals); /* As if asked to by USR2, whatever was asked before. */
}

/* Until the broker has ended. */
static int serve(struct program *program, struct amb_signals *signals)
{
    struct amb_eof eof;
    bool is_watched = program->line.until_eof;
    if (is_watched && amb_eof_start(&eof, STDIN_FILENO, on_eof, signals) != AMB_OK) {
        return EXIT_FAILURE;
    }
    int result = amb_broker_wait(program->broker);
    if (is_watched) {
        amb_eof_stop(&eof);
    }
    return result;
}

static int run_broker(struct program *program)
{
    static const struct amb_signals_events events = {on_drain, on_reload, on_reopen, on_call};
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_signals *signals = &program->signals;
    /* Memory that is to be found, or a GPU, may take longer than the manager's patience. */
    amb_notify_send(&program->notify, "STATUS=starting\nEXTEND_TIMEOUT_USEC=%llu",
                    START_US +
                        (unsigned long long)(program->settings.config->memory.host.size >> 20) *
                            START_US_EACH_MIB);
    if (amb_inbox_init(&program->jobs, program) != AMB_OK) {
        amb_error("cannot start: too few descriptors");
        return EXIT_FAILURE;
    }
    enum amb_status status =
        amb_broker_start(program->settings.config, error, sizeof(error), &program->broker);
    if (status != AMB_OK) {
        amb_error("cannot start: %s", error[0] == '\0' ? amb_status_text(status) : error);
        return exit_status_of(status);
    }
    if (amb_signals_start(signals, &events, program) == AMB_OK) {
        program->hooks =
            (struct amb_control_hooks){ask_to_reload, ask_to_drain, ask_for_config, program};
        amb_broker_use_hooks(program->broker, &program->hooks);
        say_ready(program->broker, program->out);
        if (amb_notify_is_used(&program->notify)) {
            amb_broker_use_notify(program->broker, &program->notify);
            amb_notify_send_surely(&program->notify, "READY=1");
        }
        int result = serve(program, signals);
        amb_signals_detach(signals);
        program->is_over = true;
        (void)amb_inbox_run(&program->jobs);
        amb_broker_destroy(&program->broker);
        amb_signals_stop(signals);
        amb_inbox_fini(&program->jobs);
        amb_info("ended");
        return result;
    }
    amb_broker_destroy(&program->broker);
    amb_inbox_fini(&program->jobs);
    return EXIT_FAILURE;
}

static int use_config(struct program *program)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    if (program->line.action == AMB_COMMAND_LINE_TEST_CONFIG) {
        (void)printf("%s: the configuration is valid\n", program->settings.source.path == NULL
                                                             ? "built in"
                                                             : program->settings.source.path);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (program->line.action == AMB_COMMAND_LINE_PRINT_CONFIG) {
        amb_config_print(program->settings.config, stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (amb_resources_check(program->settings.config, error, sizeof(error)) != AMB_OK) {
        (void)fprintf(stderr, "brokerd: %s\n", error);
        return EX_CONFIG;
    }
    if (amb_resources_make_folders(program->settings.config, error, sizeof(error)) != AMB_OK) {
        (void)fprintf(stderr, "brokerd: %s\n", error);
        return EX_UNAVAILABLE;
    }
    amb_log_set_level(program->settings.config->log.level);
    amb_settings_use_format(program->settings.config);
    say_what_starts(program);
    return run_broker(program);
}

/* ---- the doctor ---- */

/* config NULL: it is wrong, by that error, and by the faults behind the first. */
static int print_findings(const struct program *program, const struct amb_config *config,
                          const char *error)
{
    const struct amb_config_faults *faults = program->settings.source.faults;
    static const enum amb_findings_form forms[] = {
        [AMB_CLI_FORM_TABLE] = AMB_FINDINGS_TEXT,
        [AMB_CLI_FORM_JSON] = AMB_FINDINGS_JSON,
        [AMB_CLI_FORM_JSONL] = AMB_FINDINGS_JSONL,
        [AMB_CLI_FORM_CSV] = AMB_FINDINGS_CSV,
    };
    char fault[AMB_CONFIG_ERROR_MAX] = "";
    json_t *rows = json_array();
    amb_doctor_start(config, error, rows);
    for (unsigned i = 1; config == NULL && faults != NULL && i < faults->count; i++) {
        amb_doctor_fault(amb_config_fault_format(&faults->items[i], fault, sizeof(fault)), rows);
    }
    if (config != NULL && amb_resources_check(config, fault, sizeof(fault)) != AMB_OK) {
        amb_doctor_find(rows, AMB_DOCTOR_ADDRESS_SPACE, "fault", fault, NULL);
    }
    amb_findings_print(rows, forms[program->line.output], true, stdout);
    int code = config == NULL ? EX_CONFIG : amb_doctor_exit(rows);
    json_decref(rows);
    return fflush(stdout) == 0 ? code : EXIT_FAILURE;
}

/* Before a start: looks, and opens nothing. */
static int run_doctor(struct program *program)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    enum amb_status status = amb_crypto_begin() ? amb_config_create(&program->settings.source,
                                                                    error, sizeof(error), &config)
                                                : AMB_ENOMEM;
    if (status == AMB_ENOMEM) {
        (void)fprintf(stderr, "brokerd: no memory\n");
        return EXIT_FAILURE;
    }
    int code = print_findings(program, config, error);
    amb_config_destroy(&config);
    return code;
}

/* Each fault has a line. Without a list the error is the first of them. */
static void say_faults(const struct amb_config_faults *faults, const char *error)
{
    char text[AMB_CONFIG_ERROR_MAX];
    if (faults == NULL || faults->count == 0) {
        (void)fprintf(stderr, "%s\n", error);
        return;
    }
    for (unsigned i = 0; i < faults->count; i++) {
        (void)fprintf(stderr, "%s\n",
                      amb_config_fault_format(&faults->items[i], text, sizeof(text)));
    }
    if (faults->more != 0) {
        (void)fprintf(stderr, "brokerd: and %u faults more\n", faults->more);
    }
}

static enum amb_status load_config(struct program *program)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    const struct amb_command_line *line = &program->line;
    enum amb_status status = amb_settings_load(&program->settings, error, sizeof(error));
    if (status == AMB_OK) {
        return AMB_OK;
    }
    say_faults(program->settings.source.faults, error);
    if (line->config != NULL && strcmp(line->config, AMB_COMMAND_LINE_CONFIG_DEFAULT) == 0 &&
        access(line->config, F_OK) != 0) {
        (void)fprintf(stderr, "brokerd: --config FILE names one, --dev needs none\n");
    }
    return status;
}

static int run_program(struct program *program)
{
    const struct amb_command_line *line = &program->line;
    if (line->action == AMB_COMMAND_LINE_HELP) {
        return show_help();
    }
    if (line->action == AMB_COMMAND_LINE_VERSION) {
        return show_version();
    }
    struct amb_config_faults *faults = calloc(1, sizeof(*faults)); /* NULL: the first one alone. */
    program->settings.source = (struct amb_config_source){
        .dev = line->dev,
        .path = line->config,
        .environment = (const char *const *)environ,
        .options = line->settings,
        .option_count = line->setting_count,
        .listen = line->listen,
        .listen_count = line->listen_count,
        .machine = &program->settings.machine,
        .quick = line->action == AMB_COMMAND_LINE_RUN ? amb_quick_start : NULL,
        .faults = faults,
    };
    amb_config_machine_read(&program->settings.machine);
    if (line->action == AMB_COMMAND_LINE_DOCTOR) {
        int code = run_doctor(program);
        free(faults);
        return code;
    }
    if (line->action == AMB_COMMAND_LINE_RUN) {
        program->out = keep_stdout(); /* Transports are checked with UCX, which may print. */
    }
    enum amb_status status = load_config(program);
    program->settings.source.faults = NULL; /* Reloads have lists of their own. */
    free(faults);
    if (status != AMB_OK) {
        return status == AMB_ENOMEM ? EXIT_FAILURE : EX_CONFIG;
    }
    int result = use_config(program);
    amb_settings_fini(&program->settings);
    return result;
}

int main(int argc, char **argv)
{
    struct program program;
    char error[512] = "";
    memset(&program, 0, sizeof(program));
    program.out = -1;
    program.notify.fd = -1;
    if (amb_command_line_complete(argc, argv, stdout)) {
        return EXIT_SUCCESS;
    }
    amb_signals_block();
    amb_log_set_sink(amb_log_to_stderr, NULL);
    amb_log_set_filter(amb_log_fold);
    amb_log_set_witness(amb_log_lines_see);
    amb_ucx_own_process();
    amb_resources_raise();
    enum amb_status status = amb_command_line_init(&program.line, argc, argv, error, sizeof(error));
    if (status != AMB_OK) {
        (void)fprintf(stderr, "brokerd: %s\n", error);
        return status == AMB_ENOMEM ? EXIT_FAILURE : EX_USAGE;
    }
    if (program.line.until_eof && fcntl(STDIN_FILENO, F_GETFD) < 0) {
        (void)fprintf(stderr, "brokerd: --until-eof: standard input is closed\n");
        amb_command_line_fini(&program.line);
        return EX_USAGE;
    }
    if (program.line.action == AMB_COMMAND_LINE_RUN) {
        amb_notify_init(&program.notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                        getenv("WATCHDOG_PID"));
    }
    int result = run_program(&program);
    amb_log_fold_tick(INT64_MAX);
    amb_notify_fini(&program.notify);
    if (program.out >= 0) {
        (void)close(program.out);
    }
    amb_command_line_fini(&program.line);
    return result;
}
