# SPDX-License-Identifier: Apache-2.0
"""A session as a stream: out and in."""

import hashlib
import io
import subprocess
import tarfile

from daemon import SANDBOX, b64, unb64

PIECE = 512 * 1024


def export(cay, session_id, **fields):
    """The info, the archive, the summary; the digest is checked."""
    frames = cay.stream(SANDBOX + "ExportSession", {"sessionId": session_id} | fields)
    assert "info" in frames[0] and "summary" in frames[-1], [list(frame) for frame in frames[:3]]
    data = b"".join(unb64(frame["data"]) for frame in frames[1:-1])
    summary = frames[-1]["summary"]
    assert int(summary["bytes"]) == len(data), summary
    assert summary["sha256"] == hashlib.sha256(data).hexdigest(), summary
    return frames[0]["info"], data


def messages(data, options):
    yield {"options": options}
    for at in range(0, len(data), PIECE):
        yield {"data": b64(data[at:at + PIECE])}


def import_(cay, data, **options):
    return cay.send_all(SANDBOX + "ImportSession", messages(data, options))


def changed(data, change):
    """The archive with its members changed by a function."""
    plain = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(plain)) as old, \
            tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as new:
        members = [(member, old.extractfile(member).read() if member.isreg() else None)
                   for member in old]
        for member, content in change(members):
            if content is not None:
                member.size = len(content)
            new.addfile(member, io.BytesIO(content) if content is not None else None)
    return out.getvalue()  # not packed: that is taken, too
