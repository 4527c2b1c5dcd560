# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frame by frame: a client that can be told to break every rule."""

import contextlib

import hpack

from wire import PATIENCE_S, SERVICE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, _, STREAM_CLOSED, FRAME_SIZE_ERROR, \
    REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, _, ENHANCE_YOUR_CALM = range(12)


class Gone(Exception):
    """The server ended the connection; holds the code of its GOAWAY, or None."""


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload

    def number(self, at=0):
        return int.from_bytes(self.payload[at:at + 4], "big") & 0x7fffffff

    def __repr__(self):
        return f"<frame {self.kind} flags {self.flags} stream {self.stream} {self.payload[:60]!r}>"


class Reply:
    """What came on one stream."""

    def __init__(self):
        self.headers, self.trailers, self.body = None, None, b""
        self.reset = None  # the code of RST_STREAM
        self.is_over = False

    @property
    def status(self):
        return int(dict(self.headers)[":status"]) if self.headers else None

    @property
    def grpc_status(self):
        return int(dict(self.trailers or self.headers)["grpc-status"])

    def __repr__(self):
        return f"{self.headers} {self.body[:200]!r} {self.trailers} reset={self.reset}"


class Http2:
    def __init__(self, sock, hello=True, window=None):
        self.sock = sock
        self.buffer = b""
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.replies = {}
        self.next_stream = 1
        self.goaway = None
        self.opens_windows = True
        # What the server lets us send: on the connection, on a new stream, on each stream.
        self.window, self.first_window, self.windows = 65535, 65535, {}
        if hello:
            settings = b"" if window is None else b"\x00\x04" + window.to_bytes(4, "big")
            self.send(PREFACE)
            self.frame(SETTINGS, payload=settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    @staticmethod
    def pack(kind, flags=0, stream=0, payload=b"", length=None):
        size = len(payload) if length is None else length
        return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def frame(self, *args, **kwargs):
        self.send(self.pack(*args, **kwargs))

    def head(self, method, content_type="application/json", **extra):
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "test"),
                  (":path", SERVICE + method), ("content-type", content_type), ("te", "trailers")]
        return fields + [(name.replace("_", "-"), value) for name, value in extra.items()]

    def open(self, fields, is_last=False, block=None):
        """Start a stream; return its number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.replies[stream] = Reply()
        self.windows[stream] = self.first_window
        self.frame(HEADERS, END_HEADERS | (END_STREAM if is_last else 0), stream,
                   self.encoder.encode(fields) if block is None else block)
        return stream

    def data(self, stream, payload, is_last=True):
        """Send a body in frames, without a look at the window."""
        parts = [payload[at:at + 16384] for at in range(0, len(payload), 16384)] or [b""]
        for number, part in enumerate(parts, 1):
            last = is_last and number == len(parts)
            self.frame(DATA, END_STREAM if last else 0, stream, part)

    def send_in_window(self, stream, payload, flags=0, is_late=False):
        """One frame of a body, when the server has room for it; late: the answer is there."""
        while min(self.window, self.windows[stream]) < len(payload):
            self.step()
            assert is_late or not self.replies[stream].is_over, self.replies[stream]
        self.window -= len(payload)
        self.windows[stream] -= len(payload)
        self.frame(DATA, flags, stream, payload)

    def call(self, method, body=b"{}", content_type="application/json", **extra):
        stream = self.open(self.head(method, content_type, **extra))
        self.data(stream, body)
        return self.reply(stream)

    def read(self):
        """One frame. Gone at the end of the connection."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone(self.goaway)
            self.buffer += data
        size = int.from_bytes(self.buffer[:3], "big")
        frame = Frame(self.buffer[3], self.buffer[4],
                      int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff,
                      self.buffer[9:9 + size])
        self.buffer = self.buffer[9 + size:]
        return frame

    def take_settings(self, frame):
        for at in range(0, len(frame.payload), 6):
            if frame.payload[at:at + 2] == b"\x00\x04":
                size = frame.number(at + 2)
                for stream in self.windows:
                    self.windows[stream] += size - self.first_window
                self.first_window = size

    def step(self):
        """Read one frame and take note of it."""
        frame = self.read()
        reply = self.replies.get(frame.stream)
        if frame.kind == GOAWAY:
            self.goaway = frame.number(4)
        elif frame.kind == SETTINGS and not frame.flags & ACK:
            self.take_settings(frame)
            self.frame(SETTINGS, ACK)
        elif frame.kind == WINDOW_UPDATE and frame.stream == 0:
            self.window += frame.number()
        elif frame.kind == WINDOW_UPDATE and frame.stream in self.windows:
            self.windows[frame.stream] += frame.number()
        elif frame.kind == PING and not frame.flags & ACK:
            self.frame(PING, ACK, payload=frame.payload)
        elif reply and frame.kind == HEADERS:
            fields = self.decoder.decode(frame.payload)
            if reply.headers is None:
                reply.headers = fields
            else:
                reply.trailers = fields
        elif reply and frame.kind == DATA:
            reply.body += frame.payload
            if self.opens_windows and frame.payload:
                size = len(frame.payload).to_bytes(4, "big")
                self.send(self.pack(WINDOW_UPDATE, payload=size) +
                          self.pack(WINDOW_UPDATE, stream=frame.stream, payload=size))
        elif reply and frame.kind == RST_STREAM:
            reply.reset = frame.number()
        if reply and (frame.kind == RST_STREAM or
                      (frame.kind in (HEADERS, DATA) and frame.flags & END_STREAM)):
            reply.is_over = True
        return frame

    def reply(self, stream):
        """Read until the stream is over."""
        while not self.replies[stream].is_over:
            self.step()
        return self.replies[stream]

    def is_alive(self):
        """Whether a PING is answered; everything sent before it has been looked at then."""
        self.frame(PING, payload=b"are you?")
        try:
            while True:
                frame = self.step()
                if frame.kind == PING and frame.flags & ACK and frame.payload == b"are you?":
                    return True
        except Gone:
            return False

    def end(self, timeout_s=PATIENCE_S):
        """Read to the end of the connection; return the code of GOAWAY, or None."""
        self.sock.settimeout(timeout_s)
        try:
            while True:
                self.step()
        except Gone:
            return self.goaway
