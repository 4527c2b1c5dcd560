#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the codec with Google's on random messages.

Use: pb_differential.py FILTER DESCRIPTORS [SEED]
"""

import json
import math
import os
import random
import struct
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

MESSAGES = 300
DEPTH_MAX = 5
# Their writer's dialects take turns.
WRITER_OPTIONS = [{}, {'preserving_proto_field_name': True}, {'use_integers_for_enums': True},
                  {'indent': None, 'ensure_ascii': False}]

POOL = descriptor_pool.DescriptorPool()
FILTER = None


def fail(text, *details):
    print('FAIL:', text)
    for detail in details:
        print('   ', repr(detail)[:2000])
    sys.exit(1)


def ask(what, payload):
    FILTER.stdin.write(what + struct.pack('>I', len(payload)) + payload)
    FILTER.stdin.flush()
    head = FILTER.stdout.read(5)
    if len(head) < 5:
        fail('the filter died on', what, payload)
    size, = struct.unpack('>I', head[1:])
    return head[:1] == b'y', FILTER.stdout.read(size)


class Maker:
    """Random messages, made from the descriptor; everything in them has a JSON form."""

    def __init__(self, rng, get_class):
        self.rng = rng
        self.get_class = get_class

    def integer(self, low, high):
        edge = [low, high, 0, 1, 127, 128, 300, max(low, -1), 2**31 - 1]
        value = self.rng.choice(edge + [self.rng.randint(low, high)] * 4)
        return min(max(value, low), high)

    def text(self):
        alphabet = 'abc "\\/\b\f\n\r\t\0\x01\x1f\x7féßЖ漢字\u2028😀𝄞\ufffd\ud7ff\ue000'
        if self.rng.random() < 0.1:
            return 'x' * self.rng.choice([127, 128, 5000])
        return ''.join(self.rng.choice(alphabet) for _ in range(self.rng.randint(0, 20)))

    def real(self, finite=False):
        pick = self.rng.random()
        if pick < 0.1 and not finite:
            return self.rng.choice([math.nan, math.inf, -math.inf])
        if pick < 0.3:
            return self.rng.choice([0.0, -0.0, 1.0, -1.5, 0.1, 1e22, 1e15, 2.0**53, 2.0**63, 5e-324,
                                    1.7976931348623157e308, 1e-7, 123456789.0, 0.30000000000000004])
        if pick < 0.6:
            return float(self.rng.randint(-10**6, 10**6)) / self.rng.choice([1, 10, 1000, 7])
        value = struct.unpack('<d', self.rng.randbytes(8))[0]
        return value if math.isfinite(value) else 2.5

    def narrow(self):
        if self.rng.random() < 0.2:
            return self.rng.choice([math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4028e38,
                                    16777216.0, 0.1, 1.17549435e-38])
        value = struct.unpack('<f', self.rng.randbytes(4))[0]
        return value if math.isfinite(value) else 0.5

    def scalar(self, field):
        kind = field.cpp_type
        if kind == field.CPPTYPE_STRING:
            if field.type == field.TYPE_BYTES:
                return self.rng.randbytes(self.rng.randint(0, 12))
            return self.text()
        if kind == field.CPPTYPE_BOOL:
            return self.rng.random() < 0.5
        if kind == field.CPPTYPE_DOUBLE:
            return self.real()
        if kind == field.CPPTYPE_FLOAT:
            return self.narrow()
        if kind == field.CPPTYPE_ENUM:
            if field.enum_type.name == 'NullValue':
                return 0
            known = [value.number for value in field.enum_type.values]
            return self.rng.choice(known + [77, -1])
        return {
            field.CPPTYPE_INT32: lambda: self.integer(-2**31, 2**31 - 1),
            field.CPPTYPE_INT64: lambda: self.integer(-2**63, 2**63 - 1),
            field.CPPTYPE_UINT32: lambda: self.integer(0, 2**32 - 1),
            field.CPPTYPE_UINT64: lambda: self.integer(0, 2**64 - 1),
        }[kind]()

    def json_value(self, depth):
        pick = self.rng.randint(0, 5 if depth < DEPTH_MAX else 3)
        if pick == 0:
            return None
        if pick == 1:
            return self.rng.random() < 0.5
        if pick == 2:
            return self.real(finite=True)
        if pick == 3:
            return self.text()
        if pick == 4:
            return [self.json_value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.text(): self.json_value(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def special(self, message, depth):
        """Fills a well-known type; False when it is none that needs care."""
        name = message.DESCRIPTOR.full_name
        if name == 'google.protobuf.Timestamp':
            message.seconds = self.rng.choice([-62135596800, 253402300799, 0, -1, 951782400,
                                               self.rng.randint(-62135596800, 253402300799)])
            message.nanos = self.rng.choice([0, 1, 999999999, 500000000, 1000, 123456000])
        elif name == 'google.protobuf.Duration':
            sign = self.rng.choice([-1, 1])
            message.seconds = sign * self.rng.choice([0, 1, 315576000000, 3600])
            message.nanos = sign * self.rng.choice([0, 1, 999999999, 10000000, 5000])
        elif name == 'google.protobuf.FieldMask':
            message.paths.extend(self.rng.sample(['a', 'foo_bar', 'foo.bar_baz.x', 'a_b_c', 'x1'],
                                                 self.rng.randint(0, 3)))
        elif name in ('google.protobuf.Value', 'google.protobuf.Struct',
                      'google.protobuf.ListValue'):
            made = self.json_value(depth)
            if name.endswith('Struct'):
                made = {self.text(): made}
            elif name.endswith('ListValue'):
                made = [made]
            json_format.ParseDict(made, message, descriptor_pool=POOL)
        elif name == 'google.protobuf.Any':
            inner_name = self.rng.choice(['cay.test.v1.Scalars', 'google.protobuf.Timestamp',
                                          'google.protobuf.Value', 'google.protobuf.Int64Value'])
            inner = self.get_class(inner_name)()
            if inner_name.endswith('.Value'):
                inner.string_value = self.text()  # no map: its order is free, these bytes are not
            else:
                self.fill(inner, depth + 1)
            message.type_url = 'type.googleapis.com/' + inner_name
            message.value = inner.SerializeToString(deterministic=True)
        else:
            return False
        return True

    def fill(self, message, depth=0):
        if self.special(message, depth):
            return
        for field in message.DESCRIPTOR.fields:
            if self.rng.random() < (0.2 if depth else 0.1) + depth * 0.12:
                continue
            entry = field.message_type and field.message_type.GetOptions().map_entry
            if entry:
                self.fill_map(message, field, depth)
            elif field.label == field.LABEL_REPEATED:
                for _ in range(self.rng.choice([0, 1, 2, 3, 9])):
                    if field.message_type:
                        if depth < DEPTH_MAX:
                            self.fill(getattr(message, field.name).add(), depth + 1)
                    else:
                        getattr(message, field.name).append(self.scalar(field))
            elif field.message_type:
                if depth < DEPTH_MAX:
                    getattr(message, field.name).SetInParent()
                    self.fill(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self.scalar(field))

    def fill_map(self, message, field, depth):
        key = field.message_type.fields_by_name['key']
        value = field.message_type.fields_by_name['value']
        for _ in range(self.rng.choice([0, 1, 2, 20])):
            if not value.message_type:
                getattr(message, field.name)[self.scalar(key)] = self.scalar(value)
            elif depth < DEPTH_MAX:
                self.fill(getattr(message, field.name)[self.scalar(key)], depth + 1)


def to_float(value):
    return struct.unpack('<f', struct.pack('<f', value))[0]


def first_difference(a, b):
    """The lines of text format that differ, for error texts."""
    pairs = zip(str(a).splitlines(), str(b).splitlines())
    return [pair for pair in pairs if pair[0] != pair[1]][:5]


def same(a, b):
    """Equal as JSON; how a number is written does not count."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        # They write floats below the normal range with more digits than needed.
        return a == b or abs(a) < 1.2e-38 and to_float(a) == to_float(b)
    return type(a) is type(b) and a == b


def different(a, b, path=''):
    """Where two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for k in a for d in different(a[k], b[k], f'{path}.{k}')]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, k in enumerate(a) for d in different(k, b[i], f'{path}[{i}]')]
    return [] if same(a, b) else [(path, a, b)]


def check(cls, message, options):
    original = message.SerializeToString(deterministic=True)
    ok, out = ask(b'b', original)
    if not ok or out != original:
        fail('binary to binary', out, original)
    ok, out = ask(b'j', original)
    if not ok:
        fail('binary to JSON', out, original)
    text = out.decode()
    theirs = json_format.MessageToJson(message, descriptor_pool=POOL)
    if not same(json.loads(text), json.loads(theirs)):
        fail('other JSON than theirs', different(json.loads(text), json.loads(theirs)), text)
    again = json_format.Parse(text, cls(), descriptor_pool=POOL)
    if again.SerializeToString(deterministic=True) != original:
        fail('our JSON reads differently there', first_difference(again, message), text)
    theirs = json_format.MessageToJson(message, descriptor_pool=POOL, **options)
    ok, out = ask(b'J', theirs.encode())
    if not ok:
        fail('their JSON is refused', out, theirs)
    if cls.FromString(out).SerializeToString(deterministic=True) != original:
        fail('their JSON reads differently here', options,
             first_difference(cls.FromString(out), message), theirs)


def check_damaged(cls, rng, data, counts):
    """Flips bytes: both sides must agree, except where we refuse on purpose (groups, varints with
    bits beyond 64, tags beyond 32 bits)."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if data:
            at = rng.randrange(len(data))
            pick = rng.random()
            if pick < 0.6:
                data[at] = rng.randrange(256)
            elif pick < 0.8:
                del data[at]
            else:
                data.insert(at, rng.randrange(256))
    data = bytes(data)
    try:
        theirs = cls.FromString(data).SerializeToString(deterministic=True)
    except DecodeError:
        theirs = None
    ok, out = ask(b'b', data)
    counts[(theirs is not None, ok)] = counts.get((theirs is not None, ok), 0) + 1
    if ok and theirs is None:
        fail('we accept what they refuse', data)
    if ok:
        # They keep unknown fields, so what they made of it comes through us once more; we keep the
        # order of maps, so both go through their sorting.
        again_ok, again = ask(b'b', theirs)
        ours = cls.FromString(out)
        if not again_ok or (ours.SerializeToString(deterministic=True) !=
                            cls.FromString(again).SerializeToString(deterministic=True)):
            fail('damaged data reads differently', data, out, theirs,
                 first_difference(ours, cls.FromString(again)))


def main():
    global FILTER
    if os.environ.get('TEST_LIST'):
        return  # there is nothing to choose from
    print('1..1')
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 4747
    rng = random.Random(seed)
    with open(sys.argv[2], 'rb') as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            POOL.Add(proto)
    factory = message_factory.MessageFactory(POOL)

    def get_class(name):
        return factory.GetPrototype(POOL.FindMessageTypeByName(name))

    cls = get_class('cay.test.v1.AllTypes')
    maker = Maker(rng, get_class)
    counts = {}
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as FILTER:
        for turn in range(MESSAGES):
            message = cls()
            maker.fill(message, turn % 3)
            check(cls, message, WRITER_OPTIONS[turn % len(WRITER_OPTIONS)])
            data = message.SerializeToString(deterministic=True)
            if len(data) > 400:
                small = cls()
                maker.fill(small, 3)
                data = small.SerializeToString(deterministic=True)
            for _ in range(10):
                check_damaged(cls, rng, data, counts)
        FILTER.stdin.close()
    print(f'# seed {seed}; damaged (they accept, we accept): {counts}')
    print(f'ok 1 - {MESSAGES} random messages and their damaged copies read alike')
    sys.exit(FILTER.returncode)


if __name__ == '__main__':
    main()
