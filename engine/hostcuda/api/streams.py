"""Stream and Event."""

from __future__ import annotations

import enum

from hostcuda import errors
from hostcuda.errors import LogicError, type_of
from hostcuda.runtime import native

__all__ = ["Event", "Stream", "event_flags"]


event_flags = enum.IntFlag(
    "event_flags", {"DEFAULT": 0, "BLOCKING_SYNC": 1, "DISABLE_TIMING": 2, "INTERPROCESS": 4}
)


def handle_of(stream: Stream | None) -> int | None:
    """Return the runtime's handle of a stream; None, the default stream, stays None. TypeError for another object."""
    if stream is None:
        return None
    if isinstance(stream, Stream):
        return stream.handle
    raise errors.TypeError(
        f"stream is {type_of(stream)}: pass a hostcuda.driver.Stream, or None for the default "
        "stream"
    )


class Stream:
    """A queue of work that runs in order, independently of other streams.

    Parameters
    ----------
    flags : int
        With 1 (``CU_STREAM_NON_BLOCKING``) the stream does not wait for the default stream.
    """

    def __init__(self, flags: int = 0):
        self.handle = native.stream_create(bool(flags & 1))
        native.finalize_with(self, native.stream_destroy, self.handle)

    def synchronize(self) -> None:
        """Wait for all work of this stream; raise `LaunchError` if a kernel faulted."""
        native.stream_synchronize(self.handle)

    def is_done(self) -> bool:
        """Return whether all work of this stream is done."""
        return native.stream_query(self.handle)

    def wait_for_event(self, event: Event) -> None:
        """Make later work of this stream wait for the last record of the event."""
        native.stream_wait_event(self.handle, event.handle)


class Event:
    """A mark in a stream, with the time at which the stream reaches it.

    Parameters
    ----------
    flags : int
        Flags from `event_flags`; with DISABLE_TIMING `time_since` raises an error, as on a GPU.
    """

    def __init__(self, flags: int = 0):
        self._timed = not flags & event_flags.DISABLE_TIMING
        self.handle = native.event_create()
        native.finalize_with(self, native.event_destroy, self.handle)

    def record(self, stream: Stream | None = None) -> Event:
        """Put the event after all work that the stream (None: the default one) has so far; return the event."""
        native.event_record(self.handle, handle_of(stream))
        return self

    def synchronize(self) -> Event:
        """Wait until the stream has reached the event, and return the event."""
        native.event_synchronize(self.handle)
        return self

    def query(self) -> bool:
        """Return whether the stream has reached the event: whether all work before it is done."""
        return native.event_query(self.handle)

    def time_since(self, event: Event) -> float:
        """Return the milliseconds from `event` to this one; LogicError if one has no time or was not recorded."""
        if not (self._timed and event._timed):
            raise LogicError(
                "cuEventElapsedTime failed: invalid resource handle: an event was made with "
                "event_flags.DISABLE_TIMING, so it has no time"
            )
        return native.event_elapsed_ms(event.handle, self.handle)

    def time_till(self, event: Event) -> float:
        """Return the milliseconds from this event to `event`."""
        return event.time_since(self)
