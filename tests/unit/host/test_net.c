/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of open networks, and whom the host asks for names. */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/subnet.h"
#include "egress/rules/guarded.h"
#include "host/net/dns_servers.h"
#include "host/net/gateway_internal.h"

static struct cay_gateway_options options_with(const char *pool, const char *const *allowed,
                                               size_t count)
{
    return (struct cay_gateway_options){
        .instance = 0xabcdef12, .pool = pool, .allowed = allowed, .allowed_count = count};
}

static void test_gateway_settings(void **)
{
    static const char *const pools[] = {"fd00::/64", "10.0.0.1/8", "10.0.0.0/30", "1.0.0.0/7", ""};
    static const char *const ranges[] = {"10.1.0.0/16", "everywhere"};
    struct cay_gateway gateway;
    struct cay_error err = {};
    for (size_t i = 0; i < CAY_COUNT(pools); i++) {
        struct cay_gateway_options options = options_with(pools[i], NULL, 0);
        assert_false(cay_gateway_init(&gateway, &options, &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        cay_gateway_finish(&gateway);
    }
    struct cay_gateway_options options = options_with("100.96.0.0/16", ranges, 2);
    assert_false(cay_gateway_init(&gateway, &options, &err));
    cay_gateway_finish(&gateway);
    options.allowed_count = 1;
    assert_true(cay_gateway_init(&gateway, &options, &err));
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 64 * 1024);
    cay_gateway_write_rules(&gateway, &text);
    cay_buf_append_byte(&text, '\0');
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "table inet cay_cdef12 {"));
    assert_non_null(strstr(text.data, "set allowed4 { type ipv4_addr; flags interval; auto-merge; "
                                      "elements = { 10.1.0.0/16 } }"));
    assert_non_null(
        strstr(text.data, "set allowed6 { type ipv6_addr; flags interval; auto-merge; }"));
    struct cay_subnet closed;
    size_t cursor = 0;
    while (cay_closed_next(&cursor, &closed)) {
        char range[CAY_SUBNET_TEXT_SIZE];
        cay_subnet_format(&closed, range);
        assert_non_null(strstr(text.data, range));
    }
    cay_gateway_finish(&gateway);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_server(const struct cay_dns_server *server, const char *wanted)
{
    char text[INET6_ADDRSTRLEN];
    struct sockaddr_in four;
    memcpy(&four, &server->address, sizeof(four));
    if (four.sin_family == AF_INET)
        inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    else
        inet_ntop(AF_INET6, &server->address.sin6_addr, text, sizeof(text));
    assert_string_equal(text, wanted);
    assert_int_equal(ntohs(four.sin_port), 53); /* in the same place in both */
}

static void test_servers(void **)
{
    struct cay_dns_servers servers = {};
    cay_autofree char *path = cay_asprintf("%s/resolv-XXXXXX", getenv("TMPDIR") ?: "/tmp");
    close(mkstemp(path));
    write_file(path, "# nameserver 1.1.1.1\nsearch x\nnameserver\t127.0.0.53 \n nameserver bad\n"
                     "nameserver 2001:db8::1\nnameserver fe80::1%lo\nnameserver 9.9.9.9\n");
    cay_dns_servers_refresh(&servers, path);
    assert_int_equal(servers.count, 3);
    expect_server(&servers.list[0], "127.0.0.53");
    expect_server(&servers.list[1], "2001:db8::1");
    expect_server(&servers.list[2], "fe80::1");
    assert_int_not_equal(servers.list[2].address.sin6_scope_id, 0);
    unlink(path); /* gone: what resolvers do then */
    cay_dns_servers_refresh(&servers, path);
    assert_int_equal(servers.count, 1);
    expect_server(&servers.list[0], "127.0.0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gateway_settings),
        cmocka_unit_test(test_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
