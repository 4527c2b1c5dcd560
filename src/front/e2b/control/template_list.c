/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"
#include "front/e2b/control/template.h"

/* GET /templates: every base that the caller may know of, the builds of one template together. */

static struct cay_str template_of(const struct cay_v1_base *base)
{
    for (size_t i = 0; i < base->labels.count; i++) {
        if (cay_str_is(base->labels.items[i].key, CAY_E2B_LABEL_TEMPLATE))
            return base->labels.items[i].value;
    }
    return cay_e2b_template_name(base->name);
}

static bool is_same(const struct cay_v1_base *left, const struct cay_v1_base *right)
{
    return cay_str_equal(template_of(left), template_of(right)) &&
           cay_str_equal(left->owner, right->owner);
}

static int64_t made_ns(const struct cay_v1_base *base)
{
    return base->created_at ? cay_noun_time_ns(base->created_at) : 0;
}

/* The builds of a template, as one. */
struct template
{
    const struct cay_v1_base *first;
    const struct cay_v1_base *last;
    int64_t count;
    int64_t sandboxes;
};

/* False: an earlier base of the list told of it already. */
static bool collect(const struct cay_v1_list_bases_response *list, size_t at, struct template *out)
{
    const struct cay_v1_base *base = &list->bases.items[at];
    *out = (struct template){.first = base, .last = base};
    for (size_t i = 0; i < list->bases.count; i++) {
        const struct cay_v1_base *other = &list->bases.items[i];
        if (!is_same(other, base))
            continue;
        if (i < at)
            return false;
        out->first = made_ns(other) < made_ns(out->first) ? other : out->first;
        out->last = made_ns(other) > made_ns(out->last) ? other : out->last;
        out->count++;
        out->sandboxes += other->session_count;
    }
    return true;
}

static void write_names(struct cay_json_writer *json, const char *key,
                        const struct cay_v1_base *base)
{
    struct cay_str name = template_of(base);
    cay_json_key(json, key);
    cay_json_array_begin(json);
    cay_json_string(json, name);
    for (size_t i = 0; i < base->aliases.count; i++) {
        if (!cay_str_equal(base->aliases.items[i], name))
            cay_json_string(json, base->aliases.items[i]);
    }
    cay_json_array_end(json);
}

static void number(struct cay_json_writer *json, const char *key, int64_t value)
{
    cay_json_key(json, key);
    cay_json_i64(json, value);
}

static void text(struct cay_json_writer *json, const char *key, struct cay_str value)
{
    cay_json_key(json, key);
    cay_json_string(json, value);
}

static void write_template(struct cay_json_writer *json, const struct template *template)
{
    enum { MIB = 1024 * 1024 };
    const struct cay_v1_base *base = template->last;
    const struct cay_v1_session made = {.limits = base->settings ? base->settings->limits : NULL};
    cay_json_object_begin(json);
    text(json, "templateID", template_of(base));
    text(json, "buildID", cay_e2b_template_name(base->name));
    text(json, "buildStatus", CAY_STR("ready"));
    write_names(json, "names", base);
    write_names(json, "aliases", base);
    cay_json_key(json, "public");
    cay_json_bool(json, !base->owner.len);
    number(json, "cpuCount", cay_e2b_cpu_count(&made));
    number(json, "memoryMB", cay_e2b_memory_bytes(&made) / MIB);
    number(json, "diskSizeMB",
           made.limits && made.limits->has_disk_bytes ? made.limits->disk_bytes / MIB : 0);
    text(json, "envdVersion", CAY_STR(CAY_E2B_ENVD_VERSION));
    cay_e2b_write_time(json, "createdAt", made_ns(template->first));
    cay_e2b_write_time(json, "updatedAt", made_ns(template->last));
    cay_json_key(json, "createdBy");
    cay_json_null(json);
    cay_json_key(json, "lastSpawnedAt");
    cay_json_null(json);
    number(json, "spawnCount", template->sandboxes);
    number(json, "buildCount", template->count);
    cay_json_object_end(json);
}

static void listed(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    struct template template;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_array_begin(&json);
    for (size_t i = 0; i < list->bases.count; i++) {
        if (collect(list, i, &template))
            write_template(&json, &template);
    }
    cay_json_array_end(&json);
    if (body.failed)
        cay_rest_reply_fault(request, 413, "there are too many templates for one answer");
    else
        cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

void cay_e2b_list_templates(struct cay_rest_request *request)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_LIST_BASES);
    struct cay_v1_list_bases_request *ask = cay_rest_call_message(call);
    ask->page_size = CAY_LIMIT_PAGE_SIZE;
    cay_rest_call_start(call, listed);
}
