"""Streams and events in CUDA's runtime API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from hostcuda import errors
from hostcuda.api.streams import Event, Stream
from hostcuda.programs.calls import (
    INVALID_HANDLE,
    NOT_READY,
    Refused,
    reword_for_cuda,
    variable_at,
)
from hostcuda.runtime import native


class Streams:
    """The calls of CUDA's runtime API on streams and events, and what they remember; `program` has the others.

    As there, methods have the API's names, and their arguments are 64-bit signed integers. A stream or
    an event is its handle; a result is written to the program's variable at `result_address`.
    """

    # a method of the others
    _report: Callable[[str, str], str]

    def __init__(self):
        self.streams: dict[
            int | None, Stream
        ] = {}  # by their handles; without the default stream, None
        self.events: dict[int, Event] = {}  # by their handles

    def _find_stream(self, stream: int) -> int | None:
        """Return the runtime's handle of a cudaStream_t, None for the default stream, or raise `Refused`."""
        if stream in (0, 1, 2):  # the null stream, cudaStreamLegacy, cudaStreamPerThread
            return None
        if stream not in self.streams:
            raise Refused(
                INVALID_HANDLE,
                f"{stream:#x} is no stream: create it, and destroy it after its last use",
            )
        return stream

    def cudaStreamCreate(self, result_address: int, flags: int) -> None:
        """Create a stream with cudaStreamCreateWithFlags's flags; write its handle to the address `result_address`."""
        variable = variable_at(result_address)  # first, because it may refuse
        stream = Stream(flags)
        variable.value = stream.handle
        self.streams[stream.handle] = stream

    def cudaStreamDestroy(self, stream: int) -> None:
        """Forget a stream; its queued work still completes."""
        self.streams.pop(self._find_stream(stream), None)

    def cudaStreamSynchronize(self, stream: int) -> None:
        """Wait for all work of a stream."""
        native.stream_synchronize(self._find_stream(stream))

    def cudaStreamQuery(self, stream: int) -> None:
        """Raise `Refused` with NOT_READY, CUDA's answer for "not yet", if a stream has work left."""
        if not native.stream_query(self._find_stream(stream)):
            raise Refused(NOT_READY, "")

    def cudaStreamWaitEvent(self, stream: int, event: int) -> None:
        """Let later work of a stream wait for the last record of an event."""
        native.stream_wait_event(self._find_stream(stream), self._find_event(event).handle)

    def _find_event(self, event: int) -> Event:
        """Return the event of a cudaEvent_t, or raise `Refused`."""
        if event not in self.events:
            raise Refused(
                INVALID_HANDLE,
                f"{event:#x} is no event: create it, and destroy it after its last use",
            )
        return self.events[event]

    def cudaEventCreate(self, result_address: int, flags: int) -> None:
        """Create an event with cudaEventCreateWithFlags's flags; write its handle to the address `result_address`."""
        variable = variable_at(result_address)  # first, because it may refuse
        event = Event(flags)
        variable.value = event.handle
        self.events[event.handle] = event

    def cudaEventDestroy(self, event: int) -> None:
        """Destroy an event, given by its handle: forget the object that owns it."""
        del self.events[self._find_event(event).handle]

    def cudaEventRecord(self, event: int, stream: int) -> None:
        """Record an event: put it after the work that a stream has so far. Both are given by their handles."""
        native.event_record(self._find_event(event).handle, self._find_stream(stream))

    def cudaEventSynchronize(self, event: int) -> None:
        """Wait until the stream of an event has reached it."""
        self._find_event(event).synchronize()

    def cudaEventQuery(self, event: int) -> None:
        """Raise `Refused` with NOT_READY, CUDA's answer for "not yet", if the stream of an event has not reached it."""
        if not self._find_event(event).query():
            raise Refused(NOT_READY, "")

    def cudaEventElapsedTime(self, result_address: int, start: int, end: int) -> None:
        """Write the milliseconds between two events to the program's variable at `result_address`.

        Raises `Refused` for an event without a time, or one that its stream has not reached yet.
        """
        try:
            milliseconds = self._find_event(end).time_since(self._find_event(start))
        except errors.LogicError as error:  # an event was made without a time, or never recorded
            raise Refused(INVALID_HANDLE, error) from None
        except errors.RuntimeError as error:
            self._report(
                "",  # only print it: it is no event of the report
                f"{reword_for_cuda(str(error), 'cudaEventElapsedTime')}: wait with cudaEventSynchronize",
            )
            raise Refused(NOT_READY, "") from None
        variable_at(result_address, ctypes.c_float).value = milliseconds
