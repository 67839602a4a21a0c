"""Plain requests to a server that scores: JSON in, JSON out, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.engines.http.address import base_url
from specbench.engines.http.options import ServerOptions
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError

_SHOWN = 300
"""Characters of a server's own words in an error."""


class Talk:
    """A connection to one server.

    Args:
        url: its address, with or without ``/v1``.
        options: timeouts, TLS and the variable that holds the key.
        transport: for tests; None = the network.

    Raises:
        UsageError: not an address.
        PrerequisiteError: the package that speaks HTTP is not installed.
    """

    def __init__(self, url: str, options: ServerOptions, transport: Any = None) -> None:
        try:
            import httpx
        except ImportError:
            raise PrerequisiteError(
                "talking to a server needs httpx", "type: pip install 'specbench-llm[serve]'"
            ) from None
        if not url.startswith(("http://", "https://")):
            raise UsageError(
                f"server {url!r} is not an address", "write for example server:http://host:8000"
            )
        self.url = base_url(url)
        key = options.key
        self._errors = httpx.TransportError
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(options.timeout_s, connect=options.connect_timeout_s),
            verify=options.tls() if url.startswith("https://") else True,
            transport=transport,
            # A proxy of the environment would also be asked for this very machine.
            trust_env=False,
        )

    def models(self) -> list[dict[str, Any]]:
        """What ``/v1/models`` lists.

        Raises:
            PrerequisiteError: nobody answers there, or the key is refused.
        """
        found = self._send("GET", "/v1/models", None).get("data")
        return found if isinstance(found, list) else []

    def __call__(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """One POST.

        Raises:
            PrerequisiteError: nobody answers, or the key is refused.
            SpecbenchError: the server refuses this request; the message holds its words.
        """
        return self._send("POST", path, body)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _send(self, method: str, path: str, body: Mapping[str, object] | None) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, json=body)
        except self._errors as error:
            raise PrerequisiteError(
                f"no answer from {self.url}: {error or type(error).__name__}",
                "start the server, or correct the address behind server:",
            ) from None
        if answer.status_code in (401, 403):
            raise PrerequisiteError(
                f"{self.url} refuses the API key",
                "put the right one into SPECBENCH_API_KEY, or the variable that the run named",
            )
        if answer.status_code != 200:
            words = " ".join(answer.text.split())[:_SHOWN]
            raise SpecbenchError(
                f"{self.url}{path} answered {answer.status_code}: {words}",
                "fewer tokens per position (--top) or another --reference-engine may help",
            )
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SpecbenchError(f"{self.url}{path} answered with no JSON object")
        return found
