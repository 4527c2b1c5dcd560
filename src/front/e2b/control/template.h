/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates are bases. One that was built here is a base per build, and its names are aliases of
 * them: OWNER/NAME:TAG, or NAME:TAG for an administrator's, which is everybody's. A base goes with
 * its last alias, so building again leaves nothing of what stood there. The id of a template is its
 * name; the id of a build is the name of its base.
 */

#include "front/e2b/visit.h"
#include "front/rest/call.h"
#include "wire/e2b/template.h"

/* On bases that were built here: the template. */
#define CAY_E2B_LABEL_TEMPLATE "cay.e2b/template"

/* What may be meant by what a client calls a template, as verbs call bases, the best first: one of
 * that name and tag (the caller's own before everybody's, which is the hallway's rule), then a base
 * of that name; for "base", at last the host's default. */
enum { CAY_E2B_NAMES_MAX = 4 };
struct cay_e2b_names {
    struct cay_str items[CAY_E2B_NAMES_MAX];
    size_t count; /* at least 1 */
};
void cay_e2b_template_names(struct cay_rest_request *request, struct cay_str text,
                            struct cay_e2b_names *out_names);

/* What a base is to be called by verbs, and the base; empty and NULL when there is none, NULL only
 * when it is made with the first that asks for it. Both are gone when this returns, except `name`.
 */
typedef void cay_e2b_template_fn(struct cay_rest_request *request, struct cay_str name,
                                 const struct cay_v1_base *base);
/* Looks for what a client calls a template. Answers errors itself. */
void cay_e2b_template_find(struct cay_rest_request *request, struct cay_str text,
                           cay_e2b_template_fn *found);

/* The alias of a template of the caller's own; empty when the arena is full. */
[[nodiscard]] struct cay_str cay_e2b_own_alias(struct cay_rest_request *request,
                                               struct cay_str name, struct cay_str tag);

/* A name of a template of the caller's own: answers 400 or 404 and returns false when it is none.
 */
[[nodiscard]] bool cay_e2b_own_ref(struct cay_rest_request *request, struct cay_str text,
                                   struct cay_e2b_ref *out_ref);

/* The template that a base, as a session has it, is a build of: the name alone. */
[[nodiscard]] struct cay_str cay_e2b_template_name(struct cay_str base);
