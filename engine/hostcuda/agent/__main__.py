"""Answer one request: the process that `hostcuda.agent.server` starts per call, and ends if the call is cancelled.

The server has tried the sandbox before. Whatever the agent's code does, the answer is one line of
JSON: a report, or a sentence. SIGTERM, which also comes when the server ends, removes the folders.
"""

import json
import signal
import sys

from hostcuda import agent, processes, sandbox
from hostcuda.errors import EngineError

_MOST = 1 << 16  # bytes of an answer


def _answer(tool: str, arguments: dict) -> dict:
    """Return {"answer": a dict, "text": the same as text} for a call of a tool, or {"error": a sentence}.

    `tool` is a function's name in `hostcuda.agent.server`, and `arguments` are those of
    `hostcuda.agent.check` or `look`.
    """
    try:  # to import the report fails, too, if HOSTCUDA_CHECK names no tool
        if tool == "capabilities":
            answer = agent.capabilities()
        elif tool in ("lines", "step"):
            answer = agent.look(tool, **arguments, walled=True)
        else:
            answer = agent.check(**arguments, walled=True)
        text = agent.as_text(answer) if "verdict" in answer else json.dumps(answer)
        result = {"answer": answer, "text": text}
        if len(json.dumps(result, allow_nan=False)) > _MOST:
            raise ValueError("too long")
        return result
    except EngineError as error:
        return {"error": str(error)[: _MOST // 8]}
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        return {
            "error": "the records of the run are damaged: the code that ran has written into them, or it is a "
            f"fault of hostcuda ({type(error).__name__}: {error!s:.200})"
        }


def _leave(*_: object) -> None:
    """End this process by an exception, which removes its folders; a second SIGTERM is ignored meanwhile."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    server, tool, arguments = json.load(sys.stdin)
    if guard := processes.make_parent_guard(server, signal.SIGTERM):
        guard()
    sandbox.take_for_granted()
    print(json.dumps(_answer(tool, arguments)))
