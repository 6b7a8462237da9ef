"""The program of the process that draws: one Vega-Lite specification a line in, one drawing a line out.

Each answer is JSON: ``{"svg": ...}``, or ``{"error": type}`` where a specification cannot be drawn. It ends with its
input, so with whoever asks it. Nothing of ours is imported here: it starts in the time that the engine takes.
"""

import json
import resource
import signal
import sys

_FIRST = {"data": {"values": [{"x": 0}]}, "mark": "point", "encoding": {}}


def main() -> None:
    """Draw until the input ends."""
    # Ctrl-C in a terminal is for whoever asks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An engine that dies would leave a core file with exact figures in it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import vl_convert

    # The first drawing takes half a second more than others, which passes while whoever asks reads files.
    vl_convert.vegalite_to_svg(json.dumps(_FIRST))
    for line in sys.stdin.buffer:
        try:
            answer = {"svg": vl_convert.vegalite_to_svg(line.decode())}
        except Exception as error:  # its message may hold values
            answer = {"error": type(error).__name__}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
