/**
 * What a program may have to handle. A tool that fails is none of it: that is a
 * result, for the model.
 */

/** Everything that this package throws by itself. A gRPC status comes beside it (ServiceError): then the sidecar has
 * refused a request, or cannot be reached. */
export class SidecallError extends Error {
  override name = 'SidecallError'
}

/** A field of a request that is not what the contract has. Nothing was sent. */
export class WrongField extends SidecallError {
  override name = 'WrongField'
  /** Which one, such as conversationID or calls[2].argumentsJson. */
  readonly field: string

  /**
   * @param field Which one.
   * @param why What is wrong with it, and what is wanted.
   */
  constructor(field: string, why: string) {
    super(`${field}: ${why}`)
    this.field = field
  }
}

/** A message that is none of an assistant by a provider that is known here. Nothing was sent. */
export class WrongMessage extends SidecallError {
  override name = 'WrongMessage'
}

/** The answer does not belong to what was asked: what answers is no sidecar of this contract. */
export class BrokenAnswer extends SidecallError {
  override name = 'BrokenAnswer'
}

/** A sidecar of this process's own: its program cannot be found or started, or it has ended. What was sent to it may have
 * been begun: the same ids are safe to send to the next one with the same store. */
export class LaunchFailed extends SidecallError {
  override name = 'LaunchFailed'
}

/** A unix socket that other users of the machine may open, or may have made. */
export class UnsafeSocket extends SidecallError {
  override name = 'UnsafeSocket'
}
