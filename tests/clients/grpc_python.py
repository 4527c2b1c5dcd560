#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The gRPC client for Python."""

import threading
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from clients import (CONTRACT_SET, ECHO_SET, ECHOD, MIB, Daemon, at_end, case, cayd, eventually, list_if_asked, run)

SERVICE = "/cay.test.v1.EchoService/"
LIMITS = [("grpc.max_receive_message_length", 64 * MIB), ("grpc.max_send_message_length", 64 * MIB)]


class Schema:
    """Message classes and callables from a descriptor set."""

    def __init__(self, path):
        self.pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes()).file:
            self.pool.Add(file)
        self.factory = message_factory.MessageFactory(self.pool)

    def method(self, channel, path):
        """A callable that takes the fields of a request (or, for a client stream, an iterator)."""
        service, name = path[1:].split("/")
        method = self.pool.FindServiceByName(service).methods_by_name[name]
        proto = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(proto)
        kind = (("stream" if proto.client_streaming else "unary") + "_" +
                ("stream" if proto.server_streaming else "unary"))
        answer = self.factory.GetPrototype(method.output_type)
        return getattr(channel, kind)(
            path, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString)

    def message(self, name, **fields):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))(**fields)


ECHO = Schema(ECHO_SET)


class Echo:
    def __init__(self, daemon, **options):
        self.channel = grpc.insecure_channel(daemon.address, options=LIMITS, **options)

    def __getattr__(self, name):
        return ECHO.method(self.channel, SERVICE + name)


def message(name, **fields):
    return ECHO.message(f"cay.test.v1.{name}", **fields)


def fails(code, function, *arguments, **options):
    try:
        answer = function(*arguments, **options)
        if hasattr(answer, "__iter__"):
            answer = list(answer)
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error
    raise AssertionError(f"no error but {answer!r}")


@case
def unary(daemon):
    """unary"""
    echo = Echo(daemon)
    payload = bytes(range(256)) * 1000
    answer = echo.Unary(message("UnaryRequest", payload=payload, text="grüß", number=-5,
                                labels={"a": "b"}, values=[0.5], flag=False))
    assert answer.payload == payload and answer.text == "grüß" and answer.number == -5
    assert dict(answer.labels) == {"a": "b"} and answer.HasField("flag") and not answer.flag
    assert answer.method == "Unary" and not answer.HasField("deadline_ms")
    answer = echo.Unary(message("UnaryRequest"), timeout=60)
    # grpc rounds what it sends up, to three digits.
    assert 50_000 < answer.deadline_ms <= 61_000, answer.deadline_ms


@case
def streams(daemon):
    """server, client and bidirectional streams"""
    echo = Echo(daemon)
    got = list(echo.ServerStream(message("ServerStreamRequest", count=300, size_bytes=5000)))
    assert [m.index for m in got] == list(range(300)) and len(got[0].payload) == 5000
    answer = echo.ClientStream(message("ClientStreamRequest", payload=bytes(n)) for n in range(300))
    assert answer.messages == 300 and answer.bytes == 44850
    turns = iter(range(1, 51))
    ready = threading.Semaphore(1)

    def questions():
        for size in turns:
            assert ready.acquire(timeout=10)
            yield message("BidiRequest", payload=bytes(size))

    seen = 0
    for answer in echo.Bidi(questions()):
        seen += 1
        assert len(answer.payload) == seen
        ready.release()
    assert seen == 50


@case
def errors(daemon):
    """errors carry code, sentence and reason"""
    echo = Echo(daemon)
    for reason, code in (("session_not_found", grpc.StatusCode.NOT_FOUND),
                         ("no_space", grpc.StatusCode.RESOURCE_EXHAUSTED),
                         ("unavailable", grpc.StatusCode.UNAVAILABLE),
                         ("internal", grpc.StatusCode.INTERNAL)):
        error = fails(code, echo.Fail, message("FailRequest", reason=reason, text="100% 'ü'\n"))
        assert error.details() == "100% 'ü'\n"
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        assert b"type.googleapis.com/cay.v1.ErrorInfo" in details and reason.encode() in details
    fails(grpc.StatusCode.UNIMPLEMENTED, echo.Unimplemented, message("UnaryRequest"))
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, echo.ServerStream,
          message("ServerStreamRequest", count=2, fail_reason="no_space"))
    nope = echo.channel.unary_unary(SERVICE + "Nope")
    fails(grpc.StatusCode.UNIMPLEMENTED, nope, b"")
    fails(grpc.StatusCode.INVALID_ARGUMENT, echo.channel.unary_unary(SERVICE + "Unary"), b"\xff")


@case
def ends(daemon):
    """deadlines and cancellation reach the server"""
    echo = Echo(daemon)
    before = daemon.stats()
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, echo.Slow,
          message("SlowRequest", delay_ms=600_000), timeout=0.05)
    call = echo.Slow.future(message("SlowRequest", delay_ms=600_000))
    eventually(lambda: daemon.stats()["liveCalls"] == 1, "the call runs")
    call.cancel()
    stream = echo.ServerStream(message("ServerStreamRequest", count=10**6, size_bytes=1000))
    next(stream)
    stream.cancel()
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "all calls end")
    assert daemon.stats()["cancelledCalls"] == before["cancelledCalls"] + 3


@case
def sizes(daemon):
    """gzip, and messages up to 16 MiB"""
    echo = Echo(daemon, compression=grpc.Compression.Gzip)
    text = "squeeze " * 10_000
    assert echo.Unary(message("UnaryRequest", text=text)).text == text
    plain = Echo(daemon)
    fits = 16 * MIB - 5
    answer = plain.ClientStream(iter([message("ClientStreamRequest", payload=bytes(fits))]))
    assert answer.bytes == fits
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, plain.Unary,
          message("UnaryRequest", payload=bytes(16 * MIB)))
    assert plain.Unary(message("UnaryRequest", text="still here")).text == "still here"


@case
def keys(_):
    """keys in metadata"""
    with Daemon(ECHOD, "--key", "s3cret") as guarded:
        echo = Echo(guarded)
        fails(grpc.StatusCode.UNAUTHENTICATED, echo.Unary, message("UnaryRequest"))
        fails(grpc.StatusCode.UNAUTHENTICATED, echo.ServerStream, message("ServerStreamRequest"))
        answer = echo.Unary(message("UnaryRequest"),
                            metadata=[("authorization", "Bearer s3cret"), ("x-bin", b"\x00\xff")])
        assert answer.owner == "tester"
        echo.channel.close()


@at_end
def nothing_left(daemon):
    """no call is left on the server"""
    eventually(lambda: daemon.stats()["liveCalls"] == 0, "no call")
    assert daemon.stop() == 0


@case
def with_cayd(_):
    """cayd: health, keys and errors"""
    contract = Schema(CONTRACT_SET)
    with cayd() as daemon, grpc.insecure_channel(daemon.address) as channel:
        def call(path, name, **fields):
            method = contract.method(channel, path)
            return method(contract.message(name, **fields),
                          metadata=[("authorization", f"Bearer {daemon.key}")])

        answer = call("/cay.v1.SandboxService/HealthCheck", "cay.v1.HealthCheckRequest")
        assert answer.status > 0 and answer.uptime.ToNanoseconds() >= 0
        made = call("/cay.v1.KeyService/CreateKey", "cay.v1.CreateKeyRequest", owner="somebody")
        assert made.secret.startswith("cay_")
        listed = call("/cay.v1.KeyService/ListKeys", "cay.v1.ListKeysRequest", owner="somebody")
        assert [key.id for key in listed.keys] == [made.key.id]
        error = fails(grpc.StatusCode.NOT_FOUND, call, "/cay.v1.KeyService/RevokeKey",
                      "cay.v1.RevokeKeyRequest", key_id="nothing")
        assert b"key_not_found" in dict(error.trailing_metadata())["grpc-status-details-bin"]
        fails(grpc.StatusCode.UNAUTHENTICATED, contract.method(
            channel, "/cay.v1.SandboxService/HealthCheck"),
              contract.message("cay.v1.HealthCheckRequest"))


if __name__ == "__main__":
    list_if_asked()
    run(Daemon(ECHOD))
