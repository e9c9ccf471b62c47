"""The span that a request belongs to, for programs that have OpenTelemetry."""

from __future__ import annotations

import sys


def metadata() -> tuple[tuple[str, str], ...]:
    """The W3C trace context of the current span, as metadata of a request: the
    sidecar's span is its child. Empty where there is no span, and where there is no
    OpenTelemetry: a program that has a span has imported it, so nothing is imported
    for this that is not there."""
    if "opentelemetry.trace" not in sys.modules:
        return ()
    try:
        # Not the propagator that the program has set: the sidecar knows this one.
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError:  # something else of that name
        return ()
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return tuple(carrier.items())
