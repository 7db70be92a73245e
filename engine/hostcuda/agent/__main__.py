"""Answer one request: the process that `hostcuda.agent.server` starts per call, and kills if the call is cancelled."""

import json
import sys

from hostcuda.agent import as_text, capabilities, check, look
from hostcuda.errors import EngineError

if __name__ == "__main__":
    tool, arguments = json.load(sys.stdin)
    try:
        if tool == "capabilities":
            answer = capabilities()
        elif tool in ("lines", "step"):
            answer = look(tool, **arguments, walled=True)
        else:
            answer = check(**arguments, walled=True)
        print(json.dumps({"answer": answer, "text": as_text(answer) if "verdict" in answer else json.dumps(answer)}))
    except EngineError as error:
        print(json.dumps({"error": str(error)}))
