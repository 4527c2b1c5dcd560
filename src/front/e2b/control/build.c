/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/limits.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/orders.h"
#include "front/e2b/control/template.h"
#include "wire/e2b/e2b.h"

/* Building templates: the order, and its start. build_status.c tells how it goes. */

enum {
    TAGS_MAX = 32,
    MIB = 1024 * 1024,
    CPU_COUNT_MAX = 1024,
    MEMORY_MB_MAX = 1 << 24,
};

#define DEFAULT_IMAGE "e2bdev/base"
#define DEFAULT_USER  "user"
#define DEFAULT_CWD   "/home/user"

/* --- POST /v3/templates --- */

static void text(struct cay_json_writer *json, const char *key, struct cay_str value)
{
    cay_json_key(json, key);
    cay_json_string(json, value);
}

static void texts(struct cay_json_writer *json, const char *key, struct cay_pb_strs values)
{
    cay_json_key(json, key);
    cay_json_array_begin(json);
    for (size_t i = 0; i < values.count; i++)
        cay_json_string(json, values.items[i]);
    cay_json_array_end(json);
}

static void reply_order(struct cay_rest_request *request, struct cay_e2b_order *order)
{
    const char *full = cay_arena_printf(&request->arena, "%s/%.*s", order->owner,
                                        (int)order->name.len, order->name.ptr);
    struct cay_str name = cay_str(full ? full : "");
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    text(&json, "templateID", order->name);
    text(&json, "buildID", cay_str(order->id));
    cay_json_key(&json, "public");
    cay_json_bool(&json, request->caller.role == CAY_ROLE_ADMIN);
    texts(&json, "names", (struct cay_pb_strs){&name, 1});
    texts(&json, "aliases", (struct cay_pb_strs){&order->name, 1});
    texts(&json, "tags", order->tags);
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 202, cay_buf_str(&body));
}

/* The name's tag and the others, each once; `default` when there is none. */
static bool read_tags(struct cay_rest_request *request, const struct cay_e2b_ref *ref,
                      struct cay_pb_strs wanted, struct cay_pb_strs *out_tags)
{
    struct cay_pb_strs tags = {
        .items = cay_arena_array(&request->arena, wanted.count + 1, sizeof(struct cay_str))};
    if (!tags.items || wanted.count > TAGS_MAX)
        return false;
    if (ref->tag.len)
        tags.items[tags.count++] = ref->tag;
    for (size_t i = 0; i < wanted.count; i++) {
        struct cay_str tag;
        bool is_known = false;
        if (!cay_e2b_tag_parse(wanted.items[i], &request->arena, &tag))
            return false;
        for (size_t j = 0; j < tags.count; j++)
            is_known = is_known || cay_str_equal(tags.items[j], tag);
        if (!is_known)
            tags.items[tags.count++] = tag;
    }
    if (!tags.count)
        tags.items[tags.count++] = CAY_STR("default");
    *out_tags = tags;
    return true;
}

void cay_e2b_order_template(struct cay_rest_request *request)
{
    const struct e2b_new_template *wanted = cay_rest_read(request, &e2b_new_template_desc);
    struct cay_e2b_ref ref;
    struct cay_pb_strs tags;
    if (!wanted || !cay_e2b_own_ref(request, wanted->name.len ? wanted->name : wanted->alias, &ref))
        return;
    const char *fault = NULL;
    if (!read_tags(request, &ref, wanted->tags, &tags))
        fault = "tags: 32 at most, of letters, digits, '-', '_' and '.'";
    else if (wanted->has_cpu_count && (wanted->cpu_count < 1 || wanted->cpu_count > CPU_COUNT_MAX))
        fault = "cpuCount: 1 to 1024";
    else if (wanted->has_memory_mb && (wanted->memory_mb < CAY_LIMIT_MEMORY_BYTES_MIN / MIB ||
                                       wanted->memory_mb > MEMORY_MB_MAX))
        fault = "memoryMB: 16 or more";
    if (fault) {
        cay_rest_reply_fault(request, 400, fault);
        return;
    }
    struct cay_e2b_order *order = cay_e2b_order_new(request, ref.name, tags);
    order->cpu_count = wanted->cpu_count;
    order->memory_mb = wanted->memory_mb;
    reply_order(request, order);
}

/* --- POST /v2/templates/{}/builds/{} --- */

/* What clients call steps, and who they are for by default. */
static const struct {
    const char *name;
    enum cay_v1_build_step_kind kind;
    size_t user_at; /* argument that names a user; 0: none */
} kinds[] = {
    {"RUN", CAY_V1_BUILD_STEP_KIND_RUN, 1},   {"COPY", CAY_V1_BUILD_STEP_KIND_COPY, 2},
    {"ENV", CAY_V1_BUILD_STEP_KIND_ENV, 0},   {"WORKDIR", CAY_V1_BUILD_STEP_KIND_WORKDIR, 0},
    {"USER", CAY_V1_BUILD_STEP_KIND_USER, 0},
};

/* Commands run as, and copies belong to, the user of the time. `*user` is that, and may change. */
static bool make_step(const struct e2b_template_step *wanted, struct cay_arena *arena,
                      struct cay_str *user, struct cay_v1_build_step *out)
{
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        if (!cay_str_is(wanted->type, kinds[i].name))
            continue;
        size_t at = kinds[i].user_at;
        struct cay_pb_strs args = wanted->args;
        out->kind = kinds[i].kind;
        out->files = wanted->files_hash;
        out->args = args;
        if (at && args.count >= at && (args.count == at || !args.items[at].len)) {
            out->args.count = CAY_MAX(args.count, at + 1);
            out->args.items = cay_arena_array(arena, out->args.count, sizeof(struct cay_str));
            if (!out->args.items)
                return false;
            memcpy(out->args.items, args.items, args.count * sizeof(struct cay_str));
            out->args.items[at] = *user;
        }
        if (kinds[i].kind == CAY_V1_BUILD_STEP_KIND_USER && args.count)
            *user = args.items[0];
        return true;
    }
    return false;
}

static bool add_steps(const struct e2b_start_template_build *wanted,
                      struct cay_v1_build_base_request *build, struct cay_arena *arena)
{
    struct cay_str user = build->user;
    build->steps.items =
        cay_arena_array(arena, wanted->steps.count, sizeof(struct cay_v1_build_step));
    for (size_t i = 0; build->steps.items && i < wanted->steps.count; i++) {
        if (!make_step(&wanted->steps.items[i], arena, &user,
                       &build->steps.items[build->steps.count++]))
            return false;
    }
    return build->steps.items;
}

/* A command as clients mean it: for bash, as at a login. */
static struct cay_pb_strs by_shell(struct cay_str command, struct cay_arena *arena)
{
    static const struct cay_str shell[] = {{"/bin/bash", 9}, {"-l", 2}, {"-c", 2}};
    size_t count = CAY_COUNT(shell) + (command.len > 0);
    struct cay_str *argv = cay_arena_array(arena, count, sizeof(struct cay_str));
    if (!argv)
        return (struct cay_pb_strs){};
    memcpy(argv, shell, sizeof(shell));
    if (command.len)
        argv[CAY_COUNT(shell)] = command;
    return (struct cay_pb_strs){argv, count};
}

static bool add_settings(const struct e2b_start_template_build *wanted,
                         const struct cay_e2b_order *order, struct cay_v1_build_base_request *build,
                         struct cay_arena *arena)
{
    struct cay_v1_base_settings *settings = cay_arena_new(arena, struct cay_v1_base_settings);
    struct cay_v1_resource_limits *limits = cay_arena_new(arena, struct cay_v1_resource_limits);
    if (!settings || !limits)
        return false;
    build->settings = settings;
    if (wanted->start_cmd.len || wanted->ready_cmd.len)
        settings->start_command =
            by_shell(wanted->start_cmd.len ? wanted->start_cmd : CAY_STR("true"), arena);
    if (wanted->ready_cmd.len)
        settings->ready_command = by_shell(wanted->ready_cmd, arena);
    limits->has_cpus = order->cpu_count > 0;
    limits->cpus = (double)order->cpu_count;
    limits->has_memory_bytes = order->memory_mb > 0;
    limits->memory_bytes = order->memory_mb * MIB;
    if (limits->has_cpus || limits->has_memory_bytes)
        settings->limits = limits;
    return true;
}

static bool add_names(struct cay_rest_request *request, const struct cay_e2b_order *order,
                      struct cay_v1_build_base_request *build, struct cay_arena *arena)
{
    struct cay_pb_pair *label = cay_arena_new(arena, struct cay_pb_pair);
    build->name = cay_arena_str(arena, cay_str(order->id));
    build->aliases.items = cay_arena_array(arena, order->tags.count, sizeof(struct cay_str));
    if (!label || !build->aliases.items)
        return false;
    for (size_t i = 0; i < order->tags.count; i++)
        build->aliases.items[build->aliases.count++] =
            cay_e2b_own_alias(request, order->name, order->tags.items[i]);
    *label =
        (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_TEMPLATE), cay_arena_str(arena, order->name)};
    build->labels = (struct cay_pb_pairs){label, 1};
    build->goes_with_aliases = true;
    return true;
}

static void started(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                    const struct cay_error *err)
{
    struct cay_e2b_order *order = cay_e2b_order_of(request);
    if (err && err->reason == CAY_R_ALREADY_EXISTS) {
        cay_rest_reply_fault(request, 409, "this build was started before");
        return;
    }
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    if (order)
        order->is_started = true;
    cay_rest_reply_json(request, 202, CAY_STR("{}"));
}

static void start_on(struct cay_rest_request *request, struct cay_str from,
                     const struct cay_v1_base *base)
{
    const struct e2b_start_template_build *wanted = request->state;
    const struct cay_e2b_order *order = cay_e2b_order_of(request);
    const struct cay_v1_base_settings *settings = base ? base->settings : NULL;
    if (!from.len || !order) {
        cay_rest_reply_fault(request, 404,
                             from.len ? "there is no such build"
                                      : "what the template is to be built from is not there; "
                                        "'cay base ls' lists what is");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_START_BUILD);
    struct cay_v1_start_build_request *ask = cay_rest_call_message(call);
    struct cay_arena *arena = &call->errand.call.arena;
    struct cay_v1_build_base_request *build =
        cay_arena_new(arena, struct cay_v1_build_base_request);
    bool is_good = build;
    if (is_good) {
        build->from_base = from;
        build->user = settings && settings->user.len ? cay_arena_str(arena, settings->user)
                                                     : CAY_STR(DEFAULT_USER);
        build->cwd = settings && settings->cwd.len ? cay_arena_str(arena, settings->cwd)
                                                   : CAY_STR(DEFAULT_CWD);
        build->shell = by_shell((struct cay_str){}, arena);
        is_good = add_names(request, order, build, arena) &&
                  add_settings(wanted, order, build, arena) && add_steps(wanted, build, arena);
    }
    ask->build = build;
    ask->build_id = cay_arena_str(arena, cay_str(order->id));
    if (!is_good)
        ask->build = NULL; /* refused by the verb */
    cay_rest_call_start(call, started);
}

static const char *refusal(const struct e2b_start_template_build *wanted)
{
    struct cay_str user = {};
    struct cay_v1_build_step ignored;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (wanted->from_image_registry && wanted->from_image_registry->fields.count)
        return "credentials of registries are not taken: images are bases of this host, see "
               "e2b_images in cayd.conf";
    if (!wanted->from_image.len == !wanted->from_template.len)
        return "fromImage or fromTemplate: one of them is needed";
    for (size_t i = 0; i < wanted->steps.count; i++) {
        if (!make_step(&wanted->steps.items[i], &arena, &user, &ignored))
            return "steps: they are RUN, COPY, ENV, WORKDIR or USER";
    }
    return NULL;
}

static void start_on_image(struct cay_rest_request *request, struct cay_str image)
{
    const struct cay_conf_list *images = &cay_e2b_visit(request)->e2b->options->images;
    struct cay_str base =
        cay_e2b_image_base((const char *const *)images->items, images->count, image);
    if (!base.len) {
        static const char *const own[] = {DEFAULT_IMAGE "=base"};
        base = cay_e2b_image_base(own, CAY_COUNT(own), image);
    }
    if (base.len) {
        cay_e2b_template_find(request, base, start_on);
        return;
    }
    const char *text = cay_arena_printf(&request->arena,
                                        "no base stands for the image '%.*s' here: add IMAGE=BASE "
                                        "for it to e2b_images in cayd.conf",
                                        (int)CAY_MIN(image.len, (size_t)200), image.ptr);
    cay_rest_reply_fault(request, 400, text ? text : "no base stands for the image");
}

void cay_e2b_start_build(struct cay_rest_request *request)
{
    struct e2b_start_template_build *wanted =
        cay_rest_read(request, &e2b_start_template_build_desc);
    if (!wanted)
        return;
    const struct cay_e2b_order *order = cay_e2b_order_of(request);
    const char *fault = refusal(wanted);
    request->state = wanted;
    if (!order)
        cay_rest_reply_fault(request, 404, "there is no such build (any more); order it again");
    else if (order->is_started)
        cay_rest_reply_fault(request, 409, "this build was started before");
    else if (fault)
        cay_rest_reply_fault(request, 400, fault);
    else if (wanted->from_template.len)
        cay_e2b_template_find(request, wanted->from_template, start_on);
    else
        start_on_image(request, wanted->from_image);
}
