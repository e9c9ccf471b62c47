import type { ExecuteToolResponse, Recovery, ToolError } from './generated/messages.js'

/** The result of a call that no request can hold: the sidecar has not even read it. */
export function tooLarge(call: { toolUseId?: string; toolName?: string; argumentsJson?: string }, most: string): ExecuteToolResponse {
  return refused(call.toolUseId ?? '', 'RECOVERY_CLASS_MALFORMED', {
    code: 'INVALID_ARGS',
    field: '',
    constraint: `a call has at most ${most} bytes (limits.max_request_bytes)`,
    received: `(${Buffer.byteLength(call.argumentsJson ?? '')} bytes of arguments)`,
    hint: `Nothing was run. Shorten the arguments, or split them, then call ${call.toolName} again: once for each part.`,
  })
}

/** A result that does not come from the sidecar, of a call that the model may make otherwise. */
function refused(toolUseId: string, recoveryClass: Recovery['class'], error: ToolError): ExecuteToolResponse {
  return {
    toolUseId, outcome: 'OUTCOME_ERROR', isError: true, content: JSON.stringify(error), error, violations: [error],
    recovery: {
      class: recoveryClass, retryable: true, retriesExhausted: false, retryAfter: null, allowedAlternatives: [], attempts: 0,
      context: '', suggestedArgumentsJson: '', suggestedToolName: '', requireEscalation: false,
    },
    replayed: false, recorded: false, items: [], truncation: null, budget: null, structuredContentJson: '', structuredOutputRef: '',
    duration: null, blocks: [], notices: [], resolution: null, stop: false, loop: null, earlier: null, traceparent: '', hold: null, approval: null, inputRequiredJson: '',
  }
}
