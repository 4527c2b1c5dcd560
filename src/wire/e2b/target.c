/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/e2b/target.h"

bool cay_e2b_id_valid(struct cay_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9'))
            return false;
    }
    return id.len > 0 && id.len <= CAY_E2B_ID_LEN_MAX;
}

struct cay_str cay_e2b_id_cut(struct cay_str id)
{
    struct cay_str front;
    return cay_str_split(&id, '-', &front) ? front : id;
}

static struct cay_e2b_target bad(const char *fault)
{
    return (struct cay_e2b_target){.place = CAY_E2B_BAD, .fault = fault};
}

static struct cay_e2b_target sandbox(struct cay_str id, struct cay_str port)
{
    uint64_t number = 0;
    id = cay_e2b_id_cut(id);
    if (!cay_e2b_id_valid(id))
        return bad("Invalid sandbox id");
    if (cay_str_to_u64(port, UINT16_MAX, &number) < 0 || number == 0)
        return bad("Invalid sandbox port");
    return (struct cay_e2b_target){.place = CAY_E2B_SANDBOX, .id = id, .port = (uint16_t)number};
}

/* Both without their ports: a proxy in front may serve another one than we do. */
static struct cay_str without_port(struct cay_str host)
{
    struct cay_str name;
    return cay_str_split(&host, ':', &name) ? name : host;
}

/* The label before `.DOMAIN`; empty when the host is not below it. */
static struct cay_str label_below(struct cay_str host, struct cay_str domain)
{
    host = without_port(host);
    domain = without_port(domain);
    if (!domain.len || host.len <= domain.len + 1)
        return (struct cay_str){};
    size_t len = host.len - domain.len - 1;
    const struct cay_str end = {host.ptr + len + 1, domain.len};
    if (host.ptr[len] != '.' || !cay_str_equal_nocase(end, domain))
        return (struct cay_str){};
    return (struct cay_str){host.ptr, len};
}

struct cay_e2b_target cay_e2b_target(const struct cay_http_headers *headers, struct cay_str host,
                                     struct cay_str domain)
{
    struct cay_str id = cay_str_trim(cay_http_header(headers, "e2b-sandbox-id"));
    struct cay_str port = cay_str_trim(cay_http_header(headers, "e2b-sandbox-port"));
    if (id.len && port.len)
        return sandbox(id, port);
    if (id.len || port.len)
        return bad("E2b-Sandbox-Id and E2b-Sandbox-Port go together; one is missing");
    struct cay_str rest = label_below(host, domain);
    if (!rest.len || rest.ptr[0] < '0' || rest.ptr[0] > '9')
        return (struct cay_e2b_target){}; /* api.DOMAIN and the like */
    if (memchr(rest.ptr, '.', rest.len) || !cay_str_split(&rest, '-', &port) || !rest.ptr)
        return bad("Invalid host");
    return sandbox(rest, port);
}
