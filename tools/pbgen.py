#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a FileDescriptorSet into C structs and the tables that src/wire/pb works from.

Emits one header and one source for the packages named. Types of other packages are taken from
their own generated headers: google.protobuf from src/wire/pb, others as --import says.
"""

import argparse
import re
import sys

from google.protobuf import descriptor_pb2

F = descriptor_pb2.FieldDescriptorProto

FIELDS_MAX = 256
NAME_LEN_MAX = 255

# type -> (C type, C array struct, enum constant)
SCALARS = {
    F.TYPE_DOUBLE: ('double', 'struct cay_pb_doubles', 'CAY_PB_DOUBLE'),
    F.TYPE_FLOAT: ('float', 'struct cay_pb_floats', 'CAY_PB_FLOAT'),
    F.TYPE_INT64: ('int64_t', 'struct cay_pb_i64s', 'CAY_PB_INT64'),
    F.TYPE_UINT64: ('uint64_t', 'struct cay_pb_u64s', 'CAY_PB_UINT64'),
    F.TYPE_INT32: ('int32_t', 'struct cay_pb_i32s', 'CAY_PB_INT32'),
    F.TYPE_FIXED64: ('uint64_t', 'struct cay_pb_u64s', 'CAY_PB_FIXED64'),
    F.TYPE_FIXED32: ('uint32_t', 'struct cay_pb_u32s', 'CAY_PB_FIXED32'),
    F.TYPE_BOOL: ('bool', 'struct cay_pb_bools', 'CAY_PB_BOOL'),
    F.TYPE_STRING: ('struct cay_str', 'struct cay_pb_strs', 'CAY_PB_STRING'),
    F.TYPE_BYTES: ('struct cay_str', 'struct cay_pb_strs', 'CAY_PB_BYTES'),
    F.TYPE_UINT32: ('uint32_t', 'struct cay_pb_u32s', 'CAY_PB_UINT32'),
    F.TYPE_SFIXED32: ('int32_t', 'struct cay_pb_i32s', 'CAY_PB_SFIXED32'),
    F.TYPE_SFIXED64: ('int64_t', 'struct cay_pb_i64s', 'CAY_PB_SFIXED64'),
    F.TYPE_SINT32: ('int32_t', 'struct cay_pb_i32s', 'CAY_PB_SINT32'),
    F.TYPE_SINT64: ('int64_t', 'struct cay_pb_i64s', 'CAY_PB_SINT64'),
}

FORMS = {
    'Timestamp': 'TIMESTAMP', 'Duration': 'DURATION', 'FieldMask': 'FIELD_MASK',
    'Struct': 'STRUCT', 'Value': 'VALUE', 'ListValue': 'LIST_VALUE', 'Any': 'ANY',
    'DoubleValue': 'WRAPPER', 'FloatValue': 'WRAPPER', 'Int64Value': 'WRAPPER',
    'UInt64Value': 'WRAPPER', 'Int32Value': 'WRAPPER', 'UInt32Value': 'WRAPPER',
    'BoolValue': 'WRAPPER', 'StringValue': 'WRAPPER', 'BytesValue': 'WRAPPER',
}

# Words a member cannot be called: C's own, and macros of headers that everybody includes.
RESERVED = set('''
auto bool break case char const continue default do double else enum extern float for goto if
inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while asm typeof static_assert thread_local alignas alignof true false
errno assert unix linux NULL
'''.split())


# The field of google.protobuf.MethodOptions, and the fields of its message cay.meta.v1.Verb.
VERB = 51017
VERB_SESSION = 1
VERB_TOKEN = 2
VERB_AGAIN = 3


class Failure(Exception):
    pass


def raw_fields(data):
    """(number, value) of the fields of a message whose type protoc's own library does not know."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise Failure(f'an option of a method has wire type {tag & 7}, which is not expected')


def snake(name):
    """CreateSessionRequest -> create_session_request"""
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])', '_', name).lower()


def camel(name):
    return re.sub(r'_+(.)', lambda m: m.group(1).upper(), name).rstrip('_')


def member(name):
    return name + '_' if name in RESERVED else name


class Type:
    """A message or an enum and what it is called in C."""

    def __init__(self, proto, package, scope):
        self.proto = proto
        self.package = package
        self.scope = scope  # names of the messages around it
        self.full_name = '.'.join(filter(None, [package, *scope, proto.name]))
        self.prefix = package.replace('.', '_')
        self.c_name = '_'.join([self.prefix, *map(snake, scope), snake(proto.name)]).lstrip('_')


class Model:
    """Everything in the descriptor set, by full name."""

    def __init__(self, files):
        self.messages = {}
        self.enums = {}
        self.services = []
        for file in files:
            if file.syntax != 'proto3':
                # Imported only for its options; an error comes later if a type of it is used.
                continue
            for message in file.message_type:
                self.add_message(message, file.package, [])
            for enum in file.enum_type:
                self.add_enum(enum, file.package, [])
            for service in file.service:
                self.services.append((file.package, service))

    def add_message(self, proto, package, scope):
        found = Type(proto, package, scope)
        self.messages[found.full_name] = found
        for nested in proto.nested_type:
            self.add_message(nested, package, scope + [proto.name])
        for enum in proto.enum_type:
            self.add_enum(enum, package, scope + [proto.name])

    def add_enum(self, proto, package, scope):
        found = Type(proto, package, scope)
        self.enums[found.full_name] = found

    def message(self, type_name):
        return self.look_up(self.messages, type_name)

    def enum(self, type_name):
        return self.look_up(self.enums, type_name)

    @staticmethod
    def look_up(table, type_name):
        name = type_name.lstrip('.')
        if name not in table:
            raise Failure(f'{name}: not in the descriptor set as a proto3 type')
        return table[name]


class Generator:
    def __init__(self, model, options):
        self.model = model
        self.packages = options.package
        self.name = options.name
        self.imports = dict(pair.split('=', 1) for pair in options.imports)
        self.messages = [m for m in model.messages.values() if m.package in self.packages]
        self.enums = [e for e in model.enums.values() if e.package in self.packages]
        self.services = [s for s in model.services if s[0] in self.packages]
        self.identifiers = set()
        self.headers = set()

    def claim(self, identifier):
        """Two .proto names may become the same C name; better to stop than to guess."""
        if identifier in self.identifiers:
            raise Failure(f'{identifier}: two things would have this name in C')
        self.identifiers.add(identifier)
        return identifier

    def uses(self, found):
        if found.package not in self.packages:
            if found.package not in self.imports:
                raise Failure(f'{found.full_name}: say --import {found.package}=HEADER')
            self.headers.add(self.imports[found.package])
        return found

    # -- shapes of fields

    def map_entry(self, field):
        if field.type != F.TYPE_MESSAGE or field.label != F.LABEL_REPEATED:
            return None
        found = self.model.message(field.type_name)
        return found if found.proto.options.map_entry else None

    def is_text_map(self, field):
        """map<string, string>: so common that all of them share one C type."""
        entry = self.map_entry(field)
        return entry and all(f.type == F.TYPE_STRING for f in entry.proto.field)

    def c_type(self, field):
        if field.type == F.TYPE_MESSAGE:
            found = self.uses(self.model.message(field.type_name))
            if self.is_text_map(field):
                return 'struct cay_pb_pairs '
            if field.label == F.LABEL_REPEATED:
                return f'struct {found.c_name}_array '
            return f'struct {found.c_name} *'
        if field.type == F.TYPE_ENUM:
            found = self.uses(self.model.enum(field.type_name))
            if field.label == F.LABEL_REPEATED:
                return f'struct {found.c_name}_array '
            return f'enum {found.c_name} '
        if field.type not in SCALARS:
            raise Failure(f'{field.name}: groups are not proto3')
        return SCALARS[field.type][field.label == F.LABEL_REPEATED] + ' '

    @staticmethod
    def oneof_of(message, field):
        """The name of the real oneof a field is in; proto3 `optional` makes synthetic ones."""
        if not field.HasField('oneof_index') or field.proto3_optional:
            return None
        return message.proto.oneof_decl[field.oneof_index].name

    def label(self, message, field):
        if field.label == F.LABEL_REPEATED:
            return 'CAY_PB_MAP' if self.map_entry(field) else 'CAY_PB_REPEATED'
        if self.oneof_of(message, field):
            return 'CAY_PB_ONEOF'
        if field.proto3_optional and field.type != F.TYPE_MESSAGE:
            return 'CAY_PB_OPTIONAL'
        return 'CAY_PB_SINGULAR'

    # -- the header

    def enum_lines(self, enum):
        prefix = '_'.join([enum.prefix, *map(snake, enum.scope)]).upper().lstrip('_')
        self.claim(f'enum {enum.c_name}')
        yield f'enum {enum.c_name} {{'
        for value in enum.proto.value:
            number = '-2147483647 - 1' if value.number == -2**31 else value.number
            yield f'    {self.claim(prefix + "_" + value.name)} = {number},'
        yield '};'
        yield f'struct {self.claim(enum.c_name + "_array")} {{'
        yield f'    enum {enum.c_name} *items;'
        yield '    size_t count;'
        yield '};'
        yield f'extern const struct cay_pb_enum {enum.c_name}_desc;'
        yield ''

    def oneof_enum_lines(self, message):
        for index, oneof in enumerate(message.proto.oneof_decl):
            fields = [f for f in message.proto.field
                      if f.HasField('oneof_index') and f.oneof_index == index]
            if not fields or fields[0].proto3_optional:
                continue
            c_name = f'{message.c_name}_{snake(oneof.name)}_case'
            self.claim(f'enum {c_name}')
            stem = f'{message.c_name}_{snake(oneof.name)}'.upper()
            yield f'enum {c_name} {{'
            yield f'    {self.claim(stem + "_NOT_SET")} = 0,'
            for field in fields:
                yield f'    {self.claim(stem + "_" + snake(field.name).upper())} = {field.number},'
            yield '};'
            yield ''

    def struct_lines(self, message):
        yield from self.oneof_enum_lines(message)
        yield f'struct {message.c_name} {{'
        done = set()
        flags = []
        for field in message.proto.field:
            oneof = self.oneof_of(message, field)
            if oneof is None:
                yield f'    {self.c_type(field)}{member(field.name)};'
                if self.label(message, field) == 'CAY_PB_OPTIONAL':
                    flags.append(f'    bool has_{field.name};')
            elif oneof not in done:
                done.add(oneof)
                yield f'    enum {message.c_name}_{snake(oneof)}_case which_{oneof};'
                yield '    union {'
                for other in message.proto.field:
                    if self.oneof_of(message, other) == oneof:
                        yield f'        {self.c_type(other)}{member(other.name)};'
                yield f'    }} {member(oneof)};'
        yield from flags
        if not message.proto.field:
            yield '    char no_fields; /* C has no empty structs */'
        yield '};'
        yield f'extern const struct cay_pb_message {message.c_name}_desc;'
        yield ''

    def method_enum_lines(self):
        if not self.services:
            return
        stem = self.name.upper()
        yield f'/* Indexes into {self.name}_methods. */'
        yield f'enum {self.claim(self.name + "_method")} {{'
        for _, service in self.services:
            for method in service.method:
                yield f'    {self.claim(self.method_constant(service, method))},'
        yield f'    {stem}_METHOD_COUNT,'
        yield '};'
        yield f'extern const struct cay_pb_method {self.name}_methods[{stem}_METHOD_COUNT];'
        yield '/* The same without messages, for whoever passes bytes on: a program that has only this, and some'
        yield ' * methods by themselves, does not carry the tables of all others. */'
        yield f'extern const struct cay_pb_method {self.name}_verbs[{stem}_METHOD_COUNT];'
        for _, service in self.services:
            for method in service.method:
                name = self.claim(f'{self.method_constant(service, method).lower()}_method')
                yield f'extern const struct cay_pb_method {name};'
        yield ''

    def method_constant(self, service, method):
        package = next(p for p, s in self.services if s is service)
        names = [package.replace('.', '_'), snake(service.name), snake(method.name)]
        return '_'.join(names).upper()

    def header(self):
        body = []
        for message in self.messages:
            self.claim(f'struct {message.c_name}')
            self.claim(f'{message.c_name}_desc')
            body.append(f'struct {message.c_name};')
        body.append('')
        for message in self.messages:
            body += [f'struct {self.claim(message.c_name + "_array")} {{',
                     f'    struct {message.c_name} *items;', '    size_t count;', '};']
        body.append('')
        for enum in self.enums:
            body += self.enum_lines(enum)
        for message in self.messages:
            body += self.struct_lines(message)
        body += self.method_enum_lines()
        for _, service in self.services:
            for method in service.method:
                self.uses(self.model.message(method.input_type))
                self.uses(self.model.message(method.output_type))
        top = ['/* Made by tools/pbgen.py; do not edit. */', '#pragma once', '',
               '#include "wire/pb/pb.h"']
        top += [f'#include "{header}"' for header in sorted(self.headers)]
        return '\n'.join(top + [''] + body).rstrip('\n') + '\n'

    # -- the source

    def enum_table(self, enum):
        values = enum.proto.value
        dense = 0
        while dense < len(values) and values[dense].number == dense:
            dense += 1
        yield f'static const struct cay_pb_enum_value {enum.c_name}_values[] = {{'
        for value in values:
            number = 'INT32_MIN' if value.number == -2**31 else value.number
            yield (f'    {{.name = "{value.name}", .number = {number}, '
                   f'.name_len = {len(value.name)}}},')
        yield '};'
        yield f'const struct cay_pb_enum {enum.c_name}_desc = {{'
        yield f'    .full_name = "{enum.full_name}",'
        yield f'    .values = {enum.c_name}_values,'
        yield f'    .value_count = {len(values)},'
        yield f'    .dense_count = {dense},'
        if enum.full_name == 'google.protobuf.NullValue':
            yield '    .is_null_value = true,'
        yield '};'
        yield f'static_assert(sizeof(enum {enum.c_name}) == sizeof(int32_t), "enums are 32 bits");'
        yield ''

    def field_row(self, message, field):
        oneof = self.oneof_of(message, field)
        label = self.label(message, field)
        struct = f'struct {message.c_name}'
        json_name = field.json_name or camel(field.name)
        if max(len(field.name), len(json_name)) > NAME_LEN_MAX:
            raise Failure(f'{message.full_name}.{field.name}: the name is too long')
        place = f'{member(oneof)}.{member(field.name)}' if oneof else member(field.name)
        row = [f'.number = {field.number}', f'.offset = offsetof({struct}, {place})']
        if label == 'CAY_PB_ONEOF':
            row.append(f'.presence = offsetof({struct}, which_{oneof})')
        if label == 'CAY_PB_OPTIONAL':
            row.append(f'.presence = offsetof({struct}, has_{field.name})')
        sub = None
        if field.type == F.TYPE_MESSAGE:
            type_name = 'CAY_PB_MESSAGE'
            sub = f'.message = &{self.model.message(field.type_name).c_name}_desc'
        elif field.type == F.TYPE_ENUM:
            type_name = 'CAY_PB_ENUM'
            sub = f'.enumeration = &{self.model.enum(field.type_name).c_name}_desc'
        else:
            type_name = SCALARS[field.type][2]
        row += [f'.type = {type_name}', f'.label = {label}']
        flags = [name for name, on in [('CAY_PB_PACKED', self.packed(field)),
                                       ('CAY_PB_DEPRECATED', field.options.deprecated)] if on]
        if flags:
            row.append(f'.flags = {" | ".join(flags)}')
        row += [f'.name = "{field.name}"', f'.name_len = {len(field.name)}',
                f'.json_name = "{json_name}"', f'.json_name_len = {len(json_name)}']
        if sub:
            row.append(sub)
        return f'    {{{", ".join(row)}}},'

    @staticmethod
    def packed(field):
        if field.label != F.LABEL_REPEATED or field.type in (F.TYPE_STRING, F.TYPE_BYTES,
                                                             F.TYPE_MESSAGE):
            return False
        return field.options.packed if field.options.HasField('packed') else True

    def message_table(self, message):
        fields = sorted(message.proto.field, key=lambda f: f.number)
        if len(fields) > FIELDS_MAX:
            raise Failure(f'{message.full_name}: more than {FIELDS_MAX} fields')
        dense = 0
        while dense < len(fields) and fields[dense].number == dense + 1:
            dense += 1
        if fields:
            yield f'static const struct cay_pb_field {message.c_name}_fields[] = {{'
            for field in fields:
                yield self.field_row(message, field)
            yield '};'
        yield f'const struct cay_pb_message {message.c_name}_desc = {{'
        yield f'    .full_name = "{message.full_name}",'
        if fields:
            yield f'    .fields = {message.c_name}_fields,'
        yield f'    .field_count = {len(fields)},'
        yield f'    .dense_count = {dense},'
        yield f'    .size_bytes = sizeof(struct {message.c_name}),'
        form = FORMS.get(message.proto.name) if message.package == 'google.protobuf' else None
        if form and not message.scope:
            yield f'    .form = CAY_PB_FORM_{form},'
        yield '};'
        yield (f'static_assert(sizeof(struct {message.c_name}) <= UINT16_MAX, '
               '"offsets are 16 bits");')
        yield ''

    def check_session(self, method, path):
        """The path leads through messages to a single string."""
        type_name = method.input_type
        for name in filter(None, path.split('.')):
            fields = {field.name: field for field in self.model.message(type_name).proto.field} if type_name else {}
            field = fields.get(name)
            if not field or field.label == F.LABEL_REPEATED:
                raise Failure(f'{method.name}: its request has no field {path}')
            type_name = field.type_name
            is_text = field.type == F.TYPE_STRING
        if path and not is_text:
            raise Failure(f'{method.name}: {path} is no string')

    def method_fields(self, package, service, method):
        """What is known of a method, but for its messages."""
        full = '.'.join(filter(None, [package, service.name]))
        path = f'/{full}/{method.name}'
        quiet = method.options.idempotency_level == descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS
        facts = dict(raw_fields(dict(raw_fields(method.options.SerializeToString())).get(VERB, b'')))
        session = facts.get(VERB_SESSION, b'').decode()
        self.check_session(method, session)
        yield f'.service = "{full}",'
        yield f'.name = "{method.name}",'
        yield f'.path = "{path}",'
        yield f'.path_len = {len(path)},'
        yield f'.index = {self.method_constant(service, method)},'
        yield f'.client_streaming = {str(method.client_streaming).lower()},'
        yield f'.server_streaming = {str(method.server_streaming).lower()},'
        yield f'.no_side_effects = {str(quiet).lower()},'
        yield f'.is_repeatable = {str(quiet or bool(facts.get(VERB_AGAIN))).lower()},'
        yield f'.takes_token = {str(bool(facts.get(VERB_TOKEN))).lower()},'
        yield f'.session = {chr(34) + session + chr(34) if session else "NULL"},'

    def method_messages(self, method):
        yield f'.input = &{self.model.message(method.input_type).c_name}_desc,'
        yield f'.output = &{self.model.message(method.output_type).c_name}_desc,'

    def method_tables(self):
        """Each by itself, all of them, and all without their messages."""
        if not self.services:
            return
        entries = [(self.method_constant(service, method), list(self.method_fields(package, service, method)),
                    list(self.method_messages(method)))
                   for package, service in self.services for method in service.method]
        for constant, fields, messages in entries:
            yield f'const struct cay_pb_method {constant.lower()}_method = {{'
            yield from (f'    {line}' for line in fields + messages)
            yield '};'
        count = f'{self.name.upper()}_METHOD_COUNT'
        for table, with_messages in (('methods', True), ('verbs', False)):
            yield f'const struct cay_pb_method {self.name}_{table}[{count}] = {{'
            for constant, fields, messages in entries:
                yield f'    [{constant}] = {{'
                yield from (f'        {line}' for line in fields + (messages if with_messages else []))
                yield '    },'
            yield '};'

    def source(self, header_name):
        lines = ['/* Made by tools/pbgen.py; do not edit. */', f'#include "{header_name}"', '']
        for enum in self.enums:
            lines += self.enum_table(enum)
        for message in self.messages:
            lines += self.message_table(message)
        lines += self.method_tables()
        return '\n'.join(lines).rstrip('\n') + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--descriptors', required=True, help='FileDescriptorSet with imports')
    parser.add_argument('--package', required=True, action='append', help='may be repeated')
    parser.add_argument('--name', required=True, help='prefix of the method table, such as cay_v1')
    parser.add_argument('--import', dest='imports', action='append', metavar='PACKAGE=HEADER',
                        default=['google.protobuf=wire/pb/google_protobuf.h'])
    parser.add_argument('--out-h', required=True)
    parser.add_argument('--out-c', required=True)
    options = parser.parse_args()
    with open(options.descriptors, 'rb') as file:
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    try:
        generator = Generator(Model(descriptors.file), options)
        if not generator.messages and not generator.enums:
            raise Failure(f'nothing in package {", ".join(options.package)}')
        header = generator.header()
        source = generator.source(options.out_h.rsplit('/', 1)[-1])
    except Failure as failure:
        sys.exit(f'pbgen.py: {failure}')
    with open(options.out_h, 'w', encoding='utf-8') as file:
        file.write(header)
    with open(options.out_c, 'w', encoding='utf-8') as file:
        file.write(source)


if __name__ == '__main__':
    main()
