"""Answer one request: the process that `hostcuda.agent.server` starts per call, and kills if the call is cancelled."""

import json
import sys

from hostcuda import agent
from hostcuda.errors import EngineError

if __name__ == "__main__":
    tool, arguments = json.load(sys.stdin)
    try:  # to import the report fails, too, if HOSTCUDA_CHECK names no tool
        if tool == "capabilities":
            answer = agent.capabilities()
        elif tool in ("lines", "step"):
            answer = agent.look(tool, **arguments, walled=True)
        else:
            answer = agent.check(**arguments, walled=True)
        text = agent.as_text(answer) if "verdict" in answer else json.dumps(answer)
        print(json.dumps({"answer": answer, "text": text}))
    except EngineError as error:
        print(json.dumps({"error": str(error)}))
