/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_choose.h"

#include "wire/link/ucxlib/ucx_release.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (AMB_UCX_FILE_MAX + 64u) /* bytes of one library in a list */
#define LIST_MAX 256u                     /* of the list */

struct choice {
    const struct amb_ucx_wish *wish;
    char *error;
    size_t error_size;
};

static enum amb_status refuse(const struct choice *choice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum amb_status refuse(const struct choice *choice, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(choice->error, choice->error_size, format, args);
    va_end(args);
    return AMB_ENOTSUP;
}

/* A release that is not known is told by loading it. */
static bool is_old(const struct amb_ucx_library *library)
{
    return library->release != 0 && library->release < AMB_UCX_RELEASE_OLDEST;
}

static bool fits_peer(const struct amb_ucx_library *library, uint32_t peer)
{
    return peer == 0 || library->release == 0 || amb_ucx_releases_fit(library->release, peer);
}

/* Checks the only choice. subject: the first words of a sentence about it. */
static enum amb_status take(const struct choice *choice, const struct amb_ucx_library *library,
                            const char *subject, struct amb_ucx_library *out)
{
    char own[AMB_UCX_RELEASE_TEXT_MAX], other[AMB_UCX_RELEASE_TEXT_MAX];
    (void)amb_ucx_release_text(library->release, own, sizeof(own));
    if (is_old(library)) {
        return refuse(
            choice, "%s UCX %s, which is too old: %s is the oldest that works (%s)", subject, own,
            amb_ucx_release_text(AMB_UCX_RELEASE_OLDEST, other, sizeof(other)), library->file);
    }
    if (!fits_peer(library, choice->wish->peer)) {
        return refuse(choice,
                      "%s UCX %s, and the broker %s: these do not understand each other (%s)",
                      subject, own, amb_ucx_release_text(choice->wish->peer, other, sizeof(other)),
                      library->file);
    }
    *out = *library;
    return AMB_OK;
}

/* ---- auto ---- */

static bool is_ib_of_system(const struct amb_ucx_library *library)
{
    return library->has_ib && library->origin == AMB_UCX_SYSTEM;
}

static bool is_ib(const struct amb_ucx_library *library)
{
    return library->has_ib;
}

static bool is_cuda(const struct amb_ucx_library *library)
{
    return library->has_cuda;
}

static bool is_any(const struct amb_ucx_library *library)
{
    (void)library;
    return true;
}

/* From the best reason to the last one. */
static const struct {
    bool (*has)(const struct amb_ucx_library *library);
    bool is_for_rdma;
} reasons[] = {{is_ib_of_system, true}, {is_ib, true}, {is_cuda, false}, {is_any, false}};

/* "1.22.0 (/x), 1.13.1 (/y)", as far as it fits. */
static void list_libraries(const struct amb_ucx_libraries *libraries, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < libraries->count && used < size; i++) {
        char text[TEXT_MAX];
        int len = snprintf(out + used, size - used, "%s%s", i == 0 ? "" : ", ",
                           amb_ucx_library_text(&libraries->items[i], text, sizeof(text)));
        used += len > 0 ? (size_t)len : 0;
    }
}

static enum amb_status choose_any(const struct choice *choice,
                                  const struct amb_ucx_libraries *libraries,
                                  struct amb_ucx_library *out)
{
    char list[LIST_MAX], peer[AMB_UCX_RELEASE_TEXT_MAX];
    const struct amb_ucx_wish *wish = choice->wish;
    for (size_t reason = 0; reason < sizeof(reasons) / sizeof(reasons[0]); reason++) {
        for (size_t i = 0; i < libraries->count; i++) {
            const struct amb_ucx_library *library = &libraries->items[i];
            if ((!reasons[reason].is_for_rdma || wish->has_rdma) && reasons[reason].has(library) &&
                !is_old(library) && fits_peer(library, wish->peer)) {
                *out = *library;
                return AMB_OK;
            }
        }
    }
    if (libraries->count == 0) {
        return refuse(choice, "no UCX library (libucp.so.0) is installed");
    }
    list_libraries(libraries, list, sizeof(list));
    if (wish->peer == 0) {
        return refuse(choice, "no UCX here is new enough: there is %s", list);
    }
    return refuse(choice, "no UCX here fits the broker's %s: there is %s",
                  amb_ucx_release_text(wish->peer, peer, sizeof(peer)), list);
}

/* ---- one that is named ---- */

static enum amb_status find_origin(const struct choice *choice,
                                   const struct amb_ucx_libraries *libraries,
                                   enum amb_ucx_origin origin, struct amb_ucx_library *out)
{
    for (size_t i = 0; i < libraries->count; i++) {
        if (libraries->items[i].origin == origin) {
            *out = libraries->items[i];
            return AMB_OK;
        }
    }
    return refuse(choice, "%s = \"%s\": %s", choice->wish->source, choice->wish->library,
                  origin == AMB_UCX_WHEEL
                      ? "no UCX lies beside this program (tools/deps.sh, or an install from its "
                        "build)"
                      : "the system has no UCX (Debian: apt install libucx0 ibverbs-providers)");
}

static enum amb_status find_path(const struct choice *choice, struct amb_ucx_library *out)
{
    const char *problem = "write \"auto\", \"wheel\", \"system\", or a path that begins with /";
    const char *path = choice->wish->library;
    if (path[0] == '/' && amb_ucx_library_look(path, AMB_UCX_NAMED, out, &problem)) {
        return AMB_OK;
    }
    return refuse(choice, "%s = \"%.200s\": %s", choice->wish->source, path, problem);
}

static enum amb_status find_named(const struct choice *choice,
                                  const struct amb_ucx_libraries *libraries,
                                  struct amb_ucx_library *out)
{
    const char *library = choice->wish->library;
    if (strcmp(library, "wheel") == 0) {
        return find_origin(choice, libraries, AMB_UCX_WHEEL, out);
    }
    return strcmp(library, "system") == 0 ? find_origin(choice, libraries, AMB_UCX_SYSTEM, out)
                                          : find_path(choice, out);
}

enum amb_status amb_ucx_choose(const struct amb_ucx_libraries *libraries,
                               const struct amb_ucx_library *loaded,
                               const struct amb_ucx_wish *wish, char *error, size_t error_size,
                               struct amb_ucx_library *out)
{
    const struct choice choice = {wish, error, error_size};
    char subject[128];
    if (strcmp(wish->library, "auto") == 0) {
        return loaded != NULL ? take(&choice, loaded, "this process has", out)
                              : choose_any(&choice, libraries, out);
    }
    struct amb_ucx_library named;
    enum amb_status status = find_named(&choice, libraries, &named);
    if (status != AMB_OK) {
        return status;
    }
    if (loaded != NULL && strcmp(loaded->file, named.file) != 0) {
        char has[AMB_UCX_RELEASE_TEXT_MAX], wants[AMB_UCX_RELEASE_TEXT_MAX];
        return refuse(&choice,
                      "this process has UCX %s already, and %s asks for %s: one process cannot "
                      "have both (%s, %s)",
                      amb_ucx_release_text(loaded->release, has, sizeof(has)), wish->source,
                      amb_ucx_release_text(named.release, wants, sizeof(wants)), loaded->file,
                      named.file);
    }
    (void)snprintf(subject, sizeof(subject), "%s is", wish->source);
    if (loaded != NULL) {
        named.release = loaded->release;
    }
    return take(&choice, &named, subject, out);
}
