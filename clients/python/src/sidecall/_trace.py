"""The span that a request belongs to, for programs that have OpenTelemetry."""

from __future__ import annotations

import sys


def metadata() -> tuple[tuple[str, str], ...]:
    """The current span and baggage as W3C has them, as metadata of a request: the
    sidecar's span is a child of that one. Empty where there is neither, and where there is
    no OpenTelemetry: a program that has one has imported it, so nothing is imported for
    this that is not there."""
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.baggage" not in sys.modules:
        return ()
    try:
        # Not the propagator that the program has set: the sidecar knows these.
        from opentelemetry.baggage.propagation import W3CBaggagePropagator  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError:  # something else of that name
        return ()
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    W3CBaggagePropagator().inject(carrier)
    return tuple(carrier.items())
