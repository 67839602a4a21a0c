"""A tiny server that is started as a child process, and what starts it."""

from __future__ import annotations

import sys

from specbench.errors import UsageError

PROGRAM = """
import http.server, json, os, sys, time

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def give(self, kind, data):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.give("application/json", json.dumps({"data": [{"id": "tiny"}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = body["messages"][-1]["content"]
        if said == "die":
            print("out of luck", flush=True)
            os._exit(3)
        if said == "hang":
            time.sleep(600)
        choice = {"delta": {"content": said}, "finish_reason": "stop"}
        event = json.dumps({"choices": [choice], "usage": {"completion_tokens": 1}})
        self.give("text/event-stream", f"data: {event}\\n\\ndata: [DONE]\\n\\n".encode())

class Threads(http.server.HTTPServer):
    pass

Threads(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
"""


class TinyLauncher:
    """Starts that server; an arm with drafter ``broken`` ends at once."""

    name = "tiny"
    together = True
    drafters = ("none", "broken")
    rules = ("rejection",)
    health = "/health"

    def check(self, arm):
        if arm.drafter not in self.drafters:
            raise UsageError(f"tiny servers have no drafter {arm.drafter!r}")

    def command(self, plan):
        program = "raise SystemExit('no such draft')" if plan.arm.drafter == "broken" else PROGRAM
        return [sys.executable, "-c", program, str(plan.port)]

    def files(self, plan):
        return {}

    def environment(self, plan):
        return {}

    def python(self, arm):
        return sys.executable

    def version(self, python):
        return "1.2.3"
