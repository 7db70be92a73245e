"""The server of ``hostcuda mcp``: tools for coding agents over stdio, with the SDK of the extra ``hostcuda[mcp]``.

A call is a process of its own (`hostcuda.agent.__main__`), whose code runs in the sandbox. One call
runs at a time, and four wait. A call that is cancelled, or whose client has ended, is ended with its
processes and folders. Only this module imports the SDK.
"""

import contextlib
import json
import os
import signal
import subprocess
from typing import Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, CallToolResult, ErrorData, JSONRPCError, TextContent
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import hostcuda
from hostcuda import processes, sandbox

_WAITING = 4
_COMPILING = 240  # seconds more for the engine's own files, once per machine
_ENDING = 20  # seconds for a cancelled call to remove its folders
_KEPT = 64  # reports that `previous` may name


class Case(BaseModel):
    """A launch, or a call of the source's host function, which chooses grid and block itself."""

    model_config = ConfigDict(extra="forbid")
    grid: list[int] | None = Field(None, min_length=1, max_length=3)
    block: list[int] | None = Field(None, min_length=1, max_length=3)
    arguments: dict[str, bool | int | float | dict[str, Any]] = Field(
        description='By the kernel\'s parameter names: a number, or an array {"shape": [n], "dtype": "float32"} with '
        '"values" or "fill" (normal, uniform, randint, arange, zeros, ones, unset), "low", "high", "seed". Arrays that '
        'are not const are unset without a fill. A __constant__ array has "role": "constant".'
    )
    name: str = Field("", max_length=40)
    shared_bytes: int = Field(0, ge=0, le=232448)


class Report(BaseModel):
    """The report of a check."""

    model_config = ConfigDict(extra="allow")
    report: str
    verdict: Literal[
        "pass", "compile_error", "wrong_result", "unsafe", "hang", "refused", "not_checked"
    ]
    checked: dict[str, Any]
    findings: list[dict[str, Any]] = Field(max_length=5)
    results: list[dict[str, Any]]
    counts: list[dict[str, Any]]
    next: str


class Look(BaseModel):
    """Counts of lines, or steps of a thread; `why_none` if there are none."""

    model_config = ConfigDict(extra="allow")


Source = Annotated[
    str,
    Field(
        max_length=131072,
        description="CUDA C++ of the kernels, without main; or with a host function that launches "
        'them, such as extern "C" void solve(...), whose arguments the cases then have',
    ),
]
Reference = Annotated[
    str,
    Field(
        max_length=16384,
        description="Python with NumPy as np: def reference(**arguments) "
        "returns the arrays that the kernel writes",
    ),
]
Kernel = Annotated[str, Field(description="the kernel's name, if there is more than one")]
Options = Annotated[
    str, Field(max_length=400, description="nvcc's: -D, -U, -std, -arch, -use_fast_math")
]
Seconds = Annotated[
    int,
    Field(
        ge=5,
        le=300,
        description="the time limit of the launches, or of the program, from their start: "
        "compilations are not counted",
    ),
]
Tolerance = Annotated[
    float | None,
    Field(
        description="a result is right within atol + rtol * |what is right|; by "
        "default rtol is 1e-4 for float32, 1e-2 for float16, 1e-10 for float64 and 0 "
        "for integers, and atol is rtol times the root mean square of what is right"
    ),
]
Start = Annotated[
    int,
    Field(
        ge=0, description="leave out so many rows before the first; the text says where to go on"
    ),
]
Index = Annotated[list[int], Field(min_length=3, max_length=3, description="x, y, z")]


class _Server(MCPServer):
    """A server that answers each message: the SDK drops those that it cannot read."""

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output until the input ends; answer also what the SDK would drop."""
        async with stdio_server() as (received, answers), anyio.create_task_group() as tasks:
            # what `relay` sends, the SDK's server reads; 0: nothing is kept in between
            sender, readable = anyio.create_memory_object_stream(0)

            async def relay() -> None:
                """Pass the messages to the SDK's server, and answer those that the SDK could not read."""
                async with sender:
                    async for message in received:
                        if isinstance(message, Exception):
                            await answers.send(SessionMessage(_refuse_message(message)))
                        else:
                            await sender.send(message)

            tasks.start_soon(relay)
            await self._lowlevel_server.run(
                readable, answers, self._lowlevel_server.create_initialization_options()
            )


def _refuse_message(error: Exception) -> JSONRPCError:
    """Return the answer to a message that the SDK could not read, such as JSON with half of a surrogate pair.

    It has the message's id if that can be read, else None.
    """
    details = error.errors() if isinstance(error, ValidationError) else []
    reason, number = "it is no message of JSON-RPC", None  # number: the message's id
    for detail in details:
        value = detail["input"]
        if detail["type"] == "json_invalid":
            reason = detail["msg"]
            if "surrogate" in reason or "hex escape" in reason:
                reason = "a text in it has half of a surrogate pair, or another escape that is no character"
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(value)  # Python reads more
        if isinstance(value, dict) and isinstance(value.get("id"), int | str):
            number = value["id"]
    text = f"the request cannot be read: {reason}"
    return JSONRPCError(
        jsonrpc="2.0", id=number, error=ErrorData(code=INVALID_REQUEST, message=text)
    )


server = _Server(
    "hostcuda",
    version=hostcuda.__version__,
    instructions=(
        "Checks CUDA kernels without a GPU: invalid addresses, races, uninitialized "
        "memory, hangs and wrong results, at "
        "their lines, with counts of memory accesses. Call check with cases and a NumPy reference after each change."
    ),
)
_turn, _calls, _reports = anyio.Semaphore(1), [], {}


async def _call(tool: str, seconds: int, **arguments: Any) -> CallToolResult:
    """Answer a call of a tool in a process of its own.

    Calls wait for each other; an error of any kind is an answer with `is_error`. The process is stopped
    `_COMPILING` + `seconds` after its start, or if the call is cancelled.
    """
    if len(_calls) > _WAITING:
        return _fail(f"busy: one call runs and {_WAITING} wait; try again later")
    _calls.append(tool)
    try:
        async with _turn:
            if why := await anyio.to_thread.run_sync(sandbox.why_not):
                return _fail(f"code of an agent is not run without a sandbox: {why}")
            with anyio.fail_after(seconds + _COMPILING):
                request = json.dumps(
                    [os.getpid(), tool, {**arguments, "seconds": seconds} if arguments else {}]
                ).encode()
                printed = await _run(processes.own_program("hostcuda.agent"), request)
    except TimeoutError:
        return _fail(f"the call did not end within {seconds + _COMPILING} s and was stopped")
    finally:
        _calls.remove(tool)
    try:
        answer = json.loads(printed)
    except ValueError:
        return _fail("the call ended without an answer")
    if "error" in answer:
        return _fail(answer["error"])
    return CallToolResult(
        content=[TextContent(type="text", text=answer["text"])], structured_content=answer["answer"]
    )


async def _run(command: list[str], request: bytes) -> bytes:
    """Write a request to a command's input, and return what it prints.

    When this ends, also by a cancellation, so do the command and the processes that it has started.
    """
    process = await anyio.open_process(command, start_new_session=True, stderr=subprocess.DEVNULL)
    async with process:
        try:
            with contextlib.suppress(anyio.BrokenResourceError):
                await process.stdin.send(request)
            await process.stdin.aclose()
            return b"".join([part async for part in process.stdout])
        except BaseException:  # it was cancelled: the process removes its folders, then ends
            with anyio.move_on_after(_ENDING, shield=True), contextlib.suppress(ProcessLookupError):
                process.terminate()
                await process.wait()
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _fail(message: str) -> CallToolResult:
    """Return the answer of a call that failed, with a message for the agent."""
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


@server.tool()
async def check(
    source: Source,
    cases: Annotated[list[Case], Field(min_length=1, max_length=8)],
    kernel: Kernel = "",
    reference: Reference = "",
    rtol: Tolerance = None,
    atol: Tolerance = None,
    options: Options = "",
    previous: Annotated[str, Field(description="an earlier report's id, to compare counts")] = "",
    repairs: bool = True,
    seconds: Seconds = 60,
) -> Annotated[CallToolResult, Report]:
    """Run a kernel on its cases under all tools, compare with the reference, try repairs; return one report."""
    if previous and previous not in _reports:
        return _fail(f"there is no report {previous} any more: leave out previous")
    result = await _call(
        "check",
        seconds,
        source=source,
        kernel=kernel,
        reference=reference,
        rtol=rtol,
        atol=atol,
        cases=[case.model_dump(exclude_none=True) for case in cases],
        options=options,
        repairs=repairs,
        previous=_reports.get(previous),
    )
    # keep it by its id, report["report"], so that a later call may name it as `previous`
    if report := result.structured_content:
        _reports[report["report"]] = report
        result.content[0].text += f"\nreport: {report['report']}"
        for old in list(_reports)[:-_KEPT]:  # the oldest come first
            del _reports[old]
    return result


@server.tool()
async def run_program(
    source: Annotated[str, Field(max_length=131072, description="CUDA C++ with main")],
    options: Options = "",
    seconds: Seconds = 60,
) -> Annotated[CallToolResult, Report]:
    """Run a whole CUDA program with its host code under all tools; return one report, with what it printed."""
    return await _call("run_program", seconds, source=source, options=options)


@server.tool()
async def lines(
    source: Source,
    case: Case,
    kernel: Kernel = "",
    options: Options = "",
    start: Start = 0,
    seconds: Seconds = 60,
) -> Annotated[CallToolResult, Look]:
    """Count the memory accesses of each line of a launch; show which elements the lanes of its worst request access."""
    return await _call(
        "lines",
        seconds,
        source=source,
        kernel=kernel,
        case=case.model_dump(exclude_none=True),
        options=options,
        start=start,
    )


@server.tool()
async def step(
    source: Source,
    case: Case,
    thread: Index,
    block: Index,
    kernel: Kernel = "",
    options: Options = "",
    start: Start = 0,
    seconds: Seconds = 60,
) -> Annotated[CallToolResult, Look]:
    """Follow one thread of a launch: the lines that it ran, the variables that each set, and its accesses."""
    return await _call(
        "step",
        seconds,
        source=source,
        kernel=kernel,
        case=case.model_dump(exclude_none=True),
        thread=thread,
        block=block,
        options=options,
        start=start,
    )


@server.tool()
async def capabilities() -> Annotated[CallToolResult, Look]:
    """Tell what can be checked here, and the limits."""
    return await _call("capabilities", 60)  # at most 60 s
