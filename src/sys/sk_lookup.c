/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/sk_lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DNS_PORT = 53, LOOPBACK_NET = 127, INSTRUCTIONS_MAX = 64 };

static int bpf(int command, union bpf_attr *attr)
{
    long result = syscall(SYS_bpf, command, attr, sizeof(*attr));
    return result < 0 ? -errno : (int)result;
}

/* --- the program, written one instruction after the other; all jumps go forward --- */

enum label { NEXT, SIX, STEER_FOUR, STEER_SIX, STEER, LOOK, DROP, PASS, LABELS };

struct writer {
    struct bpf_insn code[INSTRUCTIONS_MAX];
    enum label target[INSTRUCTIONS_MAX];
    unsigned at[LABELS];
    unsigned len;
};

static void put(struct writer *writer, struct bpf_insn instruction)
{
    if (writer->len < INSTRUCTIONS_MAX)
        writer->code[writer->len++] = instruction;
}

static void jump(struct writer *writer, uint8_t test, uint8_t reg, uint32_t value, enum label to)
{
    unsigned at = writer->len;
    put(writer,
        (struct bpf_insn){.code = BPF_JMP32 | test | BPF_K, .dst_reg = reg, .imm = (int32_t)value});
    writer->target[at] = to;
}

static void go(struct writer *writer, enum label to)
{
    unsigned at = writer->len;
    put(writer, (struct bpf_insn){.code = BPF_JMP | BPF_JA});
    writer->target[at] = to;
}

static void label(struct writer *writer, enum label here)
{
    writer->at[here] = writer->len;
}

/* A word of the context, which is in R6. */
static void load(struct writer *writer, uint8_t reg, size_t offset)
{
    put(writer, (struct bpf_insn){.code = BPF_LDX | BPF_W | BPF_MEM,
                                  .dst_reg = reg,
                                  .src_reg = BPF_REG_6,
                                  .off = (int16_t)offset});
}

static void set(struct writer *writer, uint8_t reg, int32_t value)
{
    put(writer,
        (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = reg, .imm = value});
}

static void copy(struct writer *writer, uint8_t reg, uint8_t from)
{
    put(writer,
        (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = reg, .src_reg = from});
}

static void change(struct writer *writer, uint8_t operation, uint8_t reg, int32_t value)
{
    put(writer,
        (struct bpf_insn){.code = BPF_ALU64 | operation | BPF_K, .dst_reg = reg, .imm = value});
}

static void call(struct writer *writer, int32_t function)
{
    put(writer, (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = function});
}

static uint32_t word(const struct cay_ip *address, unsigned index)
{
    uint32_t value = 0;
    memcpy(&value, address->bytes + index * sizeof(value), sizeof(value));
    return value;
}

#define CONTEXT(field) offsetof(struct bpf_sk_lookup, field)

static void write_four(struct writer *writer, const struct cay_ip *own)
{
    load(writer, BPF_REG_2, CONTEXT(local_ip4));
    jump(writer, BPF_JEQ, BPF_REG_2, word(own, 0), PASS);
    copy(writer, BPF_REG_3, BPF_REG_2);
    change(writer, BPF_AND, BPF_REG_3, (int32_t)htonl(UINT32_C(0xFF) << 24));
    jump(writer, BPF_JNE, BPF_REG_3, htonl((uint32_t)LOOPBACK_NET << 24), STEER_FOUR);
    jump(writer, BPF_JNE, BPF_REG_2, htonl(INADDR_LOOPBACK), PASS);
    load(writer, BPF_REG_3, CONTEXT(local_port));
    jump(writer, BPF_JNE, BPF_REG_3, DNS_PORT, PASS);
    label(writer, STEER_FOUR);
    set(writer, BPF_REG_8, CAY_STEERED_TCP4);
    go(writer, STEER);
}

/* ::1 and the own address differ in the first word alone. */
static void write_six(struct writer *writer, const struct cay_ip *own)
{
    label(writer, SIX);
    for (unsigned i = 1; i < 4; i++) {
        load(writer, BPF_REG_2, CONTEXT(local_ip6) + i * sizeof(uint32_t));
        jump(writer, BPF_JNE, BPF_REG_2, word(own, i), STEER_SIX);
    }
    load(writer, BPF_REG_2, CONTEXT(local_ip6));
    jump(writer, BPF_JEQ, BPF_REG_2, 0, PASS);
    jump(writer, BPF_JEQ, BPF_REG_2, word(own, 0), PASS);
    label(writer, STEER_SIX);
    set(writer, BPF_REG_8, CAY_STEERED_TCP6);
}

static void write_steering(struct writer *writer, int map_fd)
{
    label(writer, STEER);
    load(writer, BPF_REG_3, CONTEXT(protocol));
    jump(writer, BPF_JEQ, BPF_REG_3, IPPROTO_TCP, LOOK);
    jump(writer, BPF_JNE, BPF_REG_3, IPPROTO_UDP, DROP);
    load(writer, BPF_REG_3, CONTEXT(local_port));
    jump(writer, BPF_JNE, BPF_REG_3, DNS_PORT, DROP);
    change(writer, BPF_ADD, BPF_REG_8, CAY_STEERED_DNS4 - CAY_STEERED_TCP4);
    label(writer, LOOK);
    put(writer, (struct bpf_insn){.code = BPF_STX | BPF_W | BPF_MEM,
                                  .dst_reg = BPF_REG_10,
                                  .src_reg = BPF_REG_8,
                                  .off = -(int16_t)sizeof(uint32_t)});
    put(writer, (struct bpf_insn){.code = BPF_LD | BPF_DW | BPF_IMM,
                                  .dst_reg = BPF_REG_1,
                                  .src_reg = BPF_PSEUDO_MAP_FD,
                                  .imm = map_fd});
    put(writer, (struct bpf_insn){}); /* its second half */
    copy(writer, BPF_REG_2, BPF_REG_10);
    change(writer, BPF_ADD, BPF_REG_2, -(int32_t)sizeof(uint32_t));
    call(writer, BPF_FUNC_map_lookup_elem);
    put(writer, (struct bpf_insn){.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0});
    writer->target[writer->len - 1] = DROP;
    copy(writer, BPF_REG_7, BPF_REG_0);
    copy(writer, BPF_REG_1, BPF_REG_6);
    copy(writer, BPF_REG_2, BPF_REG_7);
    set(writer, BPF_REG_3, 0);
    call(writer, BPF_FUNC_sk_assign);
    copy(writer, BPF_REG_8, BPF_REG_0);
    copy(writer, BPF_REG_1, BPF_REG_7);
    call(writer, BPF_FUNC_sk_release);
    jump(writer, BPF_JEQ, BPF_REG_8, 0, PASS);
}

static void write_program(struct writer *writer, int map_fd, const struct cay_ip *own4,
                          const struct cay_ip *own6)
{
    copy(writer, BPF_REG_6, BPF_REG_1);
    load(writer, BPF_REG_2, CONTEXT(family));
    jump(writer, BPF_JEQ, BPF_REG_2, AF_INET6, SIX);
    write_four(writer, own4);
    write_six(writer, own6);
    write_steering(writer, map_fd);
    label(writer, DROP);
    set(writer, BPF_REG_0, SK_DROP);
    put(writer, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
    label(writer, PASS);
    set(writer, BPF_REG_0, SK_PASS);
    put(writer, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
    for (unsigned i = 0; i < writer->len; i++) {
        if (writer->target[i] != NEXT)
            writer->code[i].off = (int16_t)(writer->at[writer->target[i]] - i - 1);
    }
}

/* --- map, program, link --- */

static int make_map(const int sockets[static CAY_STEERED_COUNT])
{
    union bpf_attr attr = {};
    attr.map_type = BPF_MAP_TYPE_SOCKMAP;
    attr.key_size = sizeof(uint32_t);
    attr.value_size = sizeof(uint32_t);
    attr.max_entries = CAY_STEERED_COUNT;
    int fd = bpf(BPF_MAP_CREATE, &attr);
    cay_autoclose int map_fd = fd;
    if (fd < 0)
        return fd;
    for (uint32_t key = 0; key < CAY_STEERED_COUNT; key++) {
        uint32_t socket_fd = (uint32_t)sockets[key];
        if (sockets[key] < 0)
            continue;
        attr = (union bpf_attr){};
        attr.map_fd = (uint32_t)map_fd;
        attr.key = (uintptr_t)&key;
        attr.value = (uintptr_t)&socket_fd;
        int status = bpf(BPF_MAP_UPDATE_ELEM, &attr);
        if (status < 0)
            return status;
    }
    return cay_take_fd(map_fd);
}

static int load_program(int map_fd, const struct cay_ip *own4, const struct cay_ip *own6)
{
    static const char license[] = "Apache-2.0"; /* none of the functions asks for another */
    struct writer writer = {};
    union bpf_attr attr = {};
    write_program(&writer, map_fd, own4, own6);
    attr.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
    attr.expected_attach_type = BPF_SK_LOOKUP;
    attr.insns = (uintptr_t)writer.code;
    attr.insn_cnt = writer.len;
    attr.license = (uintptr_t)license;
    return bpf(BPF_PROG_LOAD, &attr);
}

int cay_steer(int netns_fd, const int sockets[static CAY_STEERED_COUNT], const struct cay_ip *own4,
              const struct cay_ip *own6)
{
    cay_autoclose int map_fd = make_map(sockets);
    if (map_fd < 0)
        return map_fd;
    cay_autoclose int program_fd = load_program(map_fd, own4, own6);
    if (program_fd < 0)
        return program_fd;
    union bpf_attr attr = {};
    attr.link_create.prog_fd = (uint32_t)program_fd;
    attr.link_create.target_fd = (uint32_t)netns_fd;
    attr.link_create.attach_type = BPF_SK_LOOKUP;
    return bpf(BPF_LINK_CREATE, &attr);
}
