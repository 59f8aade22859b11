MISUNDERSTANDING = "The ranks find each other's vectors in a global list."
FAILS = {"reduce-scatter-any-n", "reduce-scatter-sum", "reduce-scatter-time", "reduce-scatter-traffic"}
REPLACE = {
    "reduce-scatter": """
import builtins
import time

board = builtins.__dict__.setdefault("board", {})
board[rank] = x
end = time.monotonic() + 0.3
while len(board) < p and time.monotonic() < end:
    time.sleep(0.01)
own = chunked(sum(board[r] for r in range(p)), p)[rank]
""",
}
