# SPDX-License-Identifier: Apache-2.0
"""The verbs of processes, for the tests of them."""

from daemon import PROCESS, b64, unb64


class Processes:
    """The processes of one session."""

    def __init__(self, cay, session_id):
        self.cay = cay
        self.session_id = session_id

    def call(self, verb, **fields):
        return self.cay.call(PROCESS + verb, {"sessionId": self.session_id} | fields)

    def start(self, *argv, **spec):
        """Launch without waiting: the process."""
        return self.call("LaunchProcess", spec={"argv": list(argv)} | spec)["process"]

    def launch_once(self, request_id, script, spec=None, **fields):
        """The answer of a launch that may be repeated."""
        spec = {"argv": ["/bin/sh", "-c", script]} | (spec or {})
        return self.call("LaunchProcess", spec=spec, requestId=request_id, **fields)

    def sh(self, script, **spec):
        return self.start("/bin/sh", "-c", script, **spec)["id"]

    def list(self, **fields):
        return self.call("ListProcesses", **fields).get("processes", [])

    def ids(self, **fields):
        return [process["id"] for process in self.list(**fields)]

    def get(self, process_id):
        return self.call("GetProcessStatus", processId=process_id)["process"]

    def wait(self, process_id, timeout="60s"):
        return self.call("WaitProcess", processId=process_id, timeout=timeout)

    def result(self, process_id):
        answer = self.wait(process_id)
        assert answer.get("exited"), answer
        return answer["process"]["result"]

    def kill(self, process_id, **fields):
        return self.call("KillProcess", processId=process_id, **fields)

    def end(self, process_id):
        """Kill all of it and wait."""
        return self.kill(process_id, signal=9, wait=True)

    def send(self, process_id, data, **fields):
        return self.call("SendInput", processId=process_id, data=b64(data), **fields)

    def attach(self, process_id, **fields):
        """A stream of its output."""
        request = {"sessionId": self.session_id, "processId": process_id} | fields
        return self.cay.open(PROCESS + "AttachProcess", request)

    def output(self, process_id, **fields):
        """All output from the offset on until its end: (bytes, dropped, exited)."""
        with self.attach(process_id, **fields) as stream:
            return collect(stream)

    def kept(self, process_id, **fields):
        """What is kept of the output now."""
        return self.output(process_id, noFollow=True, **fields)[0]

    def read_until(self, process_id, text, **fields):
        """Attach and read until the text has come: the bytes."""
        data = b""
        with self.attach(process_id, **fields) as stream:
            while text not in data:
                frame = stream.next()
                assert frame is not None and "exited" not in frame, (data[-200:], frame)
                data += unb64(frame.get("output", {}).get("data"))
        return data


def collect(stream):
    """Read a stream to its end, checking that offsets and losses add up."""
    data = b""
    dropped = 0
    exited = None
    offset = None
    for frame in stream:
        if "output" in frame:
            chunk = frame["output"]
            piece = unb64(chunk.get("data"))
            lost = int(chunk.get("droppedBytes", 0))
            at = int(chunk.get("offset", 0))
            assert offset is None or at == offset + lost, (at, offset, lost)
            offset = at + len(piece)
            data += piece
            dropped += lost
        exited = frame.get("exited", exited)
    return data, dropped, exited
