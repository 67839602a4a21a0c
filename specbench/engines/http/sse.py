"""Server-sent events from bytes that arrive cut anywhere (WHATWG HTML, section 9.2).

Only the data of events matters here; names, ids and retry times are dropped.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Collects bytes and gives the data of every event that has become whole.

    Lines end with LF, CRLF or CR; an event ends with an empty line. Text is decoded once its line
    is whole, so a character may be cut as well (case D7).
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._started = False
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[str]:
        """Data of the events that end in this chunk, several data lines joined by LF.

        Raises:
            UnicodeDecodeError: a whole line is not UTF-8.
        """
        buffer = self._rest + chunk
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            self._started = True
            buffer = buffer.removeprefix(_BOM)
        # The LF of a CRLF that was cut in two: its line has ended already.
        if self._after_cr and buffer:
            buffer = buffer.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in buffer:
            self._after_cr = buffer.endswith(b"\r")
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = buffer.split(b"\n")
        events = []
        for line in lines:
            if line:
                self._line(line)
            elif self._data:
                events.append("\n".join(self._data))
                self._data = []
        return events

    def finish(self) -> bool:
        """Whether the bytes so far end inside an event, which is then lost."""
        return bool(self._rest.strip() or self._data)

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8"))
