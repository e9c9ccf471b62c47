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

/** Somebody else has appended to the conversation, or has run a call that the messages say was not run, and nothing was
 * appended now. resume loads what there is, and makes what calls are left. */
export class StaleConversation extends SidecallError {
  override name = 'StaleConversation'
  /** How many messages it has. */
  readonly version: number

  /**
   * @param why What the sidecar said.
   * @param version
   */
  constructor(why: string, version: number) {
    super(why)
    this.version = version
  }
}

/** The client was closed, and sends nothing more. What it had sent may have been begun: the same calls with the same ids may be
 * sent again by another, and only those. */
export class ClientClosed extends SidecallError {
  override name = 'ClientClosed'

  constructor() {
    super('the client is closed: make another, and send the same calls with the same ids, since what was sent may have been begun')
  }
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

/** A function that cannot be a tool as it stands: it has no schema, its name is taken, there is no such effect. Nothing of
 * it is registered. */
export class WrongTool extends SidecallError {
  override name = 'WrongTool'
}

/** The sidecar does not take a worker's functions, and says why; none of them is registered then. */
export class WorkerRefused extends SidecallError {
  override name = 'WorkerRefused'
  /** The gRPC status; undefined when the sidecar did not answer. */
  readonly code: number | undefined

  /**
   * @param why What the sidecar said.
   * @param code
   */
  constructor(why: string, code?: number) {
    super(why)
    this.code = code
  }
}

/** What a function throws to say more of a failure than its text. */
export class Failure extends SidecallError {
  override name = 'Failure'
  /** One of WorkerResult.code in the contract; without it, UNRECOVERABLE. */
  readonly code: string
  /** Nothing was done, so the call may be made again. */
  readonly notRun: boolean
  /** When it may, in milliseconds. */
  readonly retryAfter: number | undefined

  /**
   * @param message For the model.
   * @param more
   */
  constructor(message: string, more: { code?: string; notRun?: boolean; retryAfter?: number } = {}) {
    super(message)
    this.code = more.code ?? ''
    this.notRun = more.notRun ?? false
    this.retryAfter = more.retryAfter
  }
}
