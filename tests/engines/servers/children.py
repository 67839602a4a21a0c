"""Launchers of small fake servers, each a few lines of Python run as a child process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from specbench.core.arm import ArmSpec
from specbench.engines.servers.ports import free_port
from specbench.engines.servers.protocol import ServerPlan

SERVE = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        {answer}
    def log_message(self, *words): pass
print("booting", flush=True)
{before}
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
OK = "self.send_response(200 if self.path == '/health' else 404); self.end_headers()"
BUSY = "self.send_response(503); self.end_headers()"


def script(answer=OK, before=""):
    return SERVE.format(answer=answer, before=before)


@dataclass
class Fake:
    """A launcher whose command is ``python -c text PORT``."""

    text: str
    name = "fake"
    together = True
    drafters = ("none",)
    rules = ("rejection",)
    health = "/health"
    content = "x: 1\n"

    def check(self, arm):
        pass

    def command(self, plan):
        return [sys.executable, "-c", self.text, str(plan.port), f"{plan.folder}/notes.yaml"]

    def files(self, plan):
        return {"notes.yaml": self.content}

    def environment(self, plan):
        return {"FROM_LAUNCHER": "1", "SOME_API_KEY": "hush"}

    def python(self, arm):
        return sys.executable

    def version(self, python):
        return "1.2.3"


def plan(**server):
    return ServerPlan(ArmSpec("a", server=server), "model", free_port())
