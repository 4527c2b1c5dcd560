/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/template.h"

#include "api/limits.h"

static struct cay_str alias_text(struct cay_arena *arena, struct cay_str space, struct cay_str name,
                                 struct cay_str tag)
{
    if (!tag.len)
        tag = CAY_STR("default");
    const char *text =
        cay_arena_printf(arena, "%.*s%s%.*s:%.*s", (int)space.len, space.len ? space.ptr : "",
                         space.len ? "/" : "", (int)name.len, name.ptr, (int)tag.len, tag.ptr);
    return text ? cay_str(text) : (struct cay_str){};
}

struct cay_str cay_e2b_own_alias(struct cay_rest_request *request, struct cay_str name,
                                 struct cay_str tag)
{
    bool is_everybodys = request->caller.role == CAY_ROLE_ADMIN;
    return alias_text(&request->arena,
                      is_everybodys ? (struct cay_str){} : cay_str(request->caller.owner), name,
                      tag);
}

bool cay_e2b_own_ref(struct cay_rest_request *request, struct cay_str text,
                     struct cay_e2b_ref *out_ref)
{
    if (!cay_e2b_ref_parse(text, &request->arena, out_ref)) {
        cay_rest_reply_fault(request, 400,
                             "a template is called NAME or NAME:TAG: letters, digits, '-' and '_', "
                             "the first a letter or digit; in tags also '.'; 64 at most");
        return false;
    }
    if (!out_ref->space.len || cay_str_is(out_ref->space, request->caller.owner))
        return true;
    cay_rest_reply_fault(request, 404, "there is no such template of yours");
    return false;
}

struct cay_str cay_e2b_template_name(struct cay_str base)
{
    struct cay_str part;
    struct cay_str rest = base;
    if (cay_str_split(&rest, '/', &part) && rest.ptr)
        base = rest;
    (void)cay_str_split(&base, ':', &part);
    return part;
}

/* Not what did not fit into the arena: no name at all is the host's default. */
static void add(struct cay_e2b_names *names, struct cay_str name)
{
    if (name.len && !(names->count && cay_str_equal(names->items[names->count - 1], name)))
        names->items[names->count++] = name;
}

void cay_e2b_template_names(struct cay_rest_request *request, struct cay_str text,
                            struct cay_e2b_names *out_names)
{
    struct cay_arena *arena = &request->arena;
    const struct cay_e2b_options *options = cay_e2b_visit(request)->e2b->options;
    struct cay_e2b_ref ref;
    bool is_base = cay_str_is(text, "base");
    *out_names = (struct cay_e2b_names){};
    if (is_base && options->template) {
        add(out_names, cay_str(options->template));
        return;
    }
    if (cay_e2b_ref_parse(text, arena, &ref)) {
        if (ref.space.len)
            add(out_names, alias_text(arena, ref.space, ref.name, ref.tag));
        /* The hallway looks for the caller's own before everybody's. */
        if (!ref.space.len || cay_str_is(ref.space, request->caller.owner))
            add(out_names, alias_text(arena, (struct cay_str){}, ref.name, ref.tag));
        if (!ref.space.len && cay_str_is(ref.tag, "default"))
            text = ref.name;
    }
    add(out_names, text);
    if (is_base && options->default_base)
        add(out_names, cay_str(options->default_base));
}

struct lookup {
    cay_e2b_template_fn *found;
    struct cay_e2b_names names;
    size_t at;
    struct cay_str last; /* when none of these is there; may be empty */
};

static void look(struct cay_rest_request *request, struct lookup *lookup);

static void looked(struct cay_rest_request *request, struct cay_rest_call *call,
                   const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    struct lookup *lookup = call->state;
    if (err) {
        cay_rest_reply_error(request, err);
    } else if (list->bases.count) {
        lookup->found(request, lookup->names.items[lookup->at], &list->bases.items[0]);
    } else {
        lookup->at++;
        look(request, lookup);
    }
}

static void look(struct cay_rest_request *request, struct lookup *lookup)
{
    if (lookup->at == lookup->names.count) {
        lookup->found(request, lookup->last, NULL);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_LIST_BASES);
    struct cay_v1_list_bases_request *ask = cay_rest_call_message(call);
    ask->name = lookup->names.items[lookup->at];
    ask->page_size = 1;
    call->state = lookup;
    cay_rest_call_start(call, looked);
}

void cay_e2b_template_find(struct cay_rest_request *request, struct cay_str text,
                           cay_e2b_template_fn *found)
{
    struct lookup *lookup = cay_arena_new(&request->arena, struct lookup);
    if (!lookup) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    const struct cay_e2b_options *options = cay_e2b_visit(request)->e2b->options;
    const char *usual = options->template ? options->template : options->default_base;
    lookup->found = found;
    if (cay_str_is(text, "base") && usual)
        lookup->last = cay_str(usual);
    cay_e2b_template_names(request, text, &lookup->names);
    look(request, lookup);
}
