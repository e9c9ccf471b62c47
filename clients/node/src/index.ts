/**
 * The Node client of a sidecar: a thin layer over @grpc/grpc-js.
 *
 * With a provider's SDK, one call between two turns:
 *
 *     const sidecall = await Sidecall.launch('sidecall.yaml')
 *     const message = await anthropic.messages.create({ ..., tools: await sidecall.tools('anthropic') })
 *     messages.push({ role: 'assistant', content: message.content })
 *     messages.push(...(await sidecall.runTools(message, { conversationId, promptId })))
 *
 * Or without one, calls and their results:
 *
 *     const results = await sidecall.executeTools(
 *       calls.map((c) => ({ toolUseId: c.id, toolName: c.name, argumentsJson: c.arguments })),
 *       { conversationId, turnId })
 *
 * An agent framework with a loop of its own is given the sidecar's tools by a module of its own:
 * @sidecall/client/vercel, @sidecall/client/openai-agents, @sidecall/client/anthropic.
 *
 * Functions of this program are tools too, when the sidecar has a worker backend:
 *
 *     sidecall.tool({ name: 'refund', effect: 'keyed', input: z.object({ orderId: z.string() }) },
 *       async ({ orderId }, { idempotencyKey }) => bank.refund(idempotencyKey, orderId))
 *     await sidecall.work()
 *
 * A tool that fails throws nothing: the result says so (isError, error with the five
 * fields, recovery) and its content is ready for the model. A promise that is rejected with
 * a gRPC status (a ServiceError) is for the program; after any of them the same calls may be
 * sent again with the same ids, and only with them: what is recorded is replayed, and what
 * must not be repeated is not run a second time. A SidecallError is for the program too, and
 * says in one sentence what is wrong.
 *
 * Messages are plain objects with the fields of the contract in camelCase; enums are their
 * names, 64-bit numbers are numbers.
 */
export { status, type ServiceError } from '@grpc/grpc-js'

export { DEFAULT_TARGET, MAX_RESPONSE_BYTES } from './channel.js'
export { Sidecall, type Options } from './client.js'
export type { Compaction, Conversation, ResumeOptions } from './conversation.js'
export { currentCall } from './current.js'
export * from './errors.js'
export type * from './generated/messages.js'
export type { LaunchOptions } from './launch.js'
export type { Ask, ExitReason, KeptLoopOptions, Loop, LoopOptions } from './loop.js'
export { ToolMessages } from './messages.js'
export type * from './messages.js'
export type { Call, Fields, Id, OfAConversation, Wait } from './request.js'
export type { JsonSchema, StandardSchema } from './schema.js'
export type { Work, WorkSettings } from './work.js'
export { Reply, type Clean, type Context, type ToolEffect, type ToolFunction, type ToolSettings } from './worker.js'
