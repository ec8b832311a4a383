"""One call of one lifecycle policy: whether it can suspend, how it is driven, and whether its answer is a Decision.

Which loop a coroutine runs on is settled before it is created. A coroutine function whose code object holds no
suspension point cannot be left half-way: driven by one `send(None)` it either returns or raises, so it is decided on
the main loop within the step. Every other one is created and finished on the policy thread. Nothing is ever started in
one place and finished in the other. The test is conservative: a decorated or compiled function whose code we cannot
read counts as suspending.
"""

from __future__ import annotations

import dis
import math
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from volcanoio.framework.decisions import Act, Decision, DecisionBase, Hold
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext

_SUSPENDING = frozenset({"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "SEND", "YIELD_FROM", "ASYNC_GEN_WRAP"})
"""Instructions of `await`, `async for` and `async with` in CPython 3.11 to 3.14 (module dis)."""


class BadAnswerError(TypeError):
    """A policy answered something that is no Decision."""


def can_suspend(decide: Callable[..., Any]) -> bool:
    """Whether a call of this coroutine function may ever wait; True when that cannot be told."""
    code = getattr(getattr(decide, "__func__", decide), "__code__", None)
    if code is None:
        return True
    return any(instruction.opname in _SUSPENDING for instruction in dis.get_instructions(code))


def decide_at_once(policy: LifecyclePolicy, context: PolicyContext) -> Decision:
    """The answer of a policy that cannot suspend; raises what it raises, and BadAnswerError."""
    call: Coroutine[Any, Any, Any] = policy.decide(context)
    try:
        call.send(None)
    except StopIteration as end:
        return checked(end.value)
    finally:
        call.close()
    msg = "suspended although its code has no await"
    raise BadAnswerError(msg)


def checked(answer: Any) -> Decision:
    """The answer, if it is a Decision whose every field has its type; raises BadAnswerError."""
    if not isinstance(answer, DecisionBase):
        msg = f"answered {type(answer).__name__}, which is no Decision; return Abstain() to say nothing"
        raise BadAnswerError(msg)
    try:
        decision: Decision = msgspec.convert(msgspec.to_builtins(answer), Decision)
    except (msgspec.ValidationError, TypeError) as error:
        msg = f"answered a malformed {type(answer).__name__}: {error}"
        raise BadAnswerError(msg) from None
    match decision:
        case Act(after=seconds) if not (math.isfinite(seconds) and seconds >= 0):
            msg = f"answered Act with after={seconds}; give seconds from now, 0 or more"
            raise BadAnswerError(msg)
        case Hold(until=moment) if not math.isfinite(moment):
            msg = f"answered Hold with until={moment}; give epoch seconds"
            raise BadAnswerError(msg)
    return decision


def described(error: BaseException) -> str:
    """A fault as it is shown on the job."""
    if isinstance(error, BadAnswerError):
        return str(error)
    text = str(error)
    return f"raised {type(error).__name__}: {text}" if text else f"raised {type(error).__name__}"
