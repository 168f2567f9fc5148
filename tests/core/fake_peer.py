"""A worker whose behaviour its options choose: `python -m fake_peer`."""

import os
import sys
import time

from mmspec.bench.peers.serve import serve


class FakePeer:
    def __init__(self, setup):
        sys.stdout.write("loading, and printing where it should not\n")
        self.does = setup.options.get("does", "answer")
        if self.does == "miss":
            import no_such_package  # noqa: F401
        if self.does == "die":
            sys.stderr.write("some warning\nno memory left\n")
            os._exit(3)
        if self.does == "refuse":
            raise ValueError("two\nlines")

    def answer(self, question, clock):
        if self.does == "hang":
            time.sleep(60)
        if self.does == "late":
            time.sleep(9)
        if self.does == "blind" and question.images:
            raise ValueError("sees no images")
        os.write(1, b"\nnoise\n")
        count = 0 if self.does == "silent" else question.max_tokens
        for known in range(1, count + 1):
            clock.known(known)
        return [7] * count, count

    def describe(self):
        return {"fake": "1.0"}

    def device_bytes(self):
        return 0


if __name__ == "__main__":
    serve(FakePeer)
