# SPDX-License-Identifier: Apache-2.0
"""A disk that can lose its power: what was written since the last flush is lost, or not, piece by piece.

It is served to qemu as a network block device over a Unix socket. Real disks keep what they are given in a
cache that a flush empties; in what order it reaches the medium, and how much of it when the power goes, is
the disk's affair. Here a seed decides.
"""

import os
import socket
import struct
import threading

PIECE_BYTES = 4096  # that is written as a whole or not at all
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FLAG_FUA = 1  # of a command: on the medium before it is answered
SERVES = 1 | 4 | 8  # has flags, knows flush, knows FUA
OPTION_MAGIC = 0x49484156454F5054
OPT_EXPORT_NAME, OPT_ABORT, OPT_INFO, OPT_GO = 1, 2, 6, 7
REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 1, 3, (1 << 31) + 1


class Hangup(Exception):
    """The other end is gone."""


def receive(connection, count):
    data = bytearray()
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise Hangup
        data += more
    return bytes(data)


class PowerDisk:
    """The medium is a file; beside it there is the disk as the machine sees it."""

    def __init__(self, medium, address, chance):
        self.medium = medium
        self.address = str(address)
        self.chance = chance  # random.Random
        self.pending = []  # (offset, bytes, is certain), in the order of writing
        self.lock = threading.Lock()
        self.size = os.path.getsize(medium)
        self.seen = None
        self.server = None

    def start(self):
        """Power on: what is on the medium is what there is."""
        self.pending = []
        self.seen = f"{self.medium}.seen"
        with open(self.medium, "rb") as medium, open(self.seen, "wb") as seen:
            copy_sparse(medium, seen, self.size)
        if os.path.exists(self.address):
            os.unlink(self.address)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.address)
        self.server.listen(1)
        thread = threading.Thread(target=self.serve, args=(self.server,), daemon=True)
        thread.start()

    def cut(self):
        """Power off. How many pieces were on their way, and how many of them arrived."""
        self.server.close()
        with self.lock, open(self.medium, "r+b") as medium:
            arrived = 0
            for offset, data, is_certain in self.pending:
                if is_certain or self.chance.random() < 0.5:
                    medium.seek(offset)
                    medium.write(data)
                    arrived += 1
            count = len(self.pending)
            self.pending = []
        return count, arrived

    def serve(self, server):
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, open(self.seen, "r+b", buffering=0) as seen:
            try:
                self.greet(connection)
                while self.answer(connection, seen):
                    pass
            except (Hangup, OSError):
                pass

    def greet(self, connection):
        connection.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, 3))
        receive(connection, 4)
        while True:
            _, option, length = struct.unpack(">QII", receive(connection, 16))
            receive(connection, length)
            if option == OPT_EXPORT_NAME:
                connection.sendall(struct.pack(">QH", self.size, SERVES))
                return
            if option in (OPT_GO, OPT_INFO):
                self.reply(connection, option, REPLY_INFO, struct.pack(">HQH", 0, self.size, SERVES))
                self.reply(connection, option, REPLY_ACK)
                if option == OPT_GO:
                    return
            else:
                self.reply(connection, option, REPLY_ACK if option == OPT_ABORT else REPLY_UNSUPPORTED)

    @staticmethod
    def reply(connection, option, kind, data=b""):
        connection.sendall(struct.pack(">QIII", 0x3E889045565A9, option, kind, len(data)) + data)

    def answer(self, connection, seen):
        _, flags, kind, cookie, offset, length = struct.unpack(">IHHQQI", receive(connection, 28))
        data = b""
        if kind == DISCONNECT:
            return False
        if kind == READ:
            seen.seek(offset)
            data = seen.read(length)
        elif kind == WRITE:
            self.write(seen, offset, receive(connection, length), bool(flags & FLAG_FUA))
        elif kind == FLUSH:
            self.flush()
        connection.sendall(struct.pack(">IIQ", 0x67446698, 0, cookie) + data)
        return True

    def write(self, seen, offset, data, is_certain):
        seen.seek(offset)
        seen.write(data)
        with self.lock:
            for at in range(0, len(data), PIECE_BYTES):
                self.pending.append((offset + at, data[at:at + PIECE_BYTES], is_certain))

    def flush(self):
        with self.lock, open(self.medium, "r+b") as medium:
            for offset, data, _ in self.pending:
                medium.seek(offset)
                medium.write(data)
            self.pending = []


def copy_sparse(source, target, size):
    target.truncate(size)
    at = 0
    while at < size:
        try:
            begin = os.lseek(source.fileno(), at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(source.fileno(), begin, os.SEEK_HOLE)
        os.lseek(source.fileno(), begin, os.SEEK_SET)
        target.seek(begin)
        left = end - begin
        while left > 0 and (data := os.read(source.fileno(), min(left, 1 << 20))):
            target.write(data)
            left -= len(data)
        at = end
