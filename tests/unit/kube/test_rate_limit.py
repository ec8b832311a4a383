"""The client's rate limit in virtual time: a burst at once, then evenly, as client-go's token bucket."""

from __future__ import annotations

from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer
from volcanoio.kube.transport import RateLimitedTransport, Response


async def begun(clock: ManualClock, limited: RateLimitedTransport, number: int) -> list[float]:
    """The times, from now, at which that many requests are sent one after another."""
    now, times = clock.monotonic(), list[float]()
    for _ in range(number):
        await limited.request("GET", "/version")
        times.append(clock.monotonic() - now)
    return times


async def test_a_burst_is_sent_at_once_and_the_others_at_the_rate() -> None:
    async def script(call: Call) -> Response:
        return answer({})

    clock = ManualClock()
    limited = RateLimitedTransport(ScriptedTransport(script), qps=2, burst=3, clock=clock)
    assert await begun(clock, limited, 6) == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]
    assert await begun(clock, limited, 1) == [0.5]
    await clock.sleep(60.0)
    assert await begun(clock, limited, 4) == [0.0, 0.0, 0.0, 0.5]
