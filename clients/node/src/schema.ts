/** The schema of a function's arguments: JSON Schema itself, or a validator that knows its own (zod, and all that speak
 * Standard Schema). */
import { WrongTool } from './errors.js'
import { shown } from './request.js'

/** A JSON Schema of an object. */
export type JsonSchema = { [keyword: string]: unknown }

/** What a validator such as zod is, as far as it matters here: https://standardschema.dev */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly vendor: string
    readonly validate: (value: unknown) => Outcome<Output> | Promise<Outcome<Output>>
    readonly jsonSchema?: { readonly input: (options: { target: 'draft-2020-12' }) => Record<string, unknown> } | undefined
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

type Outcome<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What a function is given for a schema. */
export type Given<S> = S extends StandardSchema<infer Output> ? Output : Record<string, unknown>

/** A schema as the sidecar is told it, and how arguments are read by it. */
export interface Arguments {
  json: string
  /** Rejects with what is wrong with them. */
  read: (given: unknown) => Promise<unknown>
}

export function argumentsOf(schema: unknown, name: string): Arguments {
  const wrong = (why: string) => new WrongTool(`the function ${name} cannot be a tool: ${why}`)
  if (schema === undefined) return { json: '{"type":"object","properties":{},"additionalProperties":false}', read: async (given) => given }
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw wrong(`input: want a JSON Schema or a schema of zod, got ${shown(schema)}`)
  }
  if (!('~standard' in schema)) return { json: written(schema, wrong), read: async (given) => given }
  const standard = (schema as StandardSchema)['~standard']
  if (typeof standard.jsonSchema?.input !== 'function') {
    throw wrong(`input: this schema of ${standard.vendor} gives no JSON Schema (zod does from 4.2 on)`)
  }
  let json: JsonSchema
  try {
    // What the validator would drop in silence is for the sidecar to correct.
    json = { additionalProperties: false, ...standard.jsonSchema.input({ target: 'draft-2020-12' }) }
  } catch (error) {
    throw wrong(`input: ${String((error as Error).message).split('\n', 1)[0]}`)
  }
  return { json: written(json, wrong), read: (given) => validated(standard, given) }
}

function written(schema: object, wrong: (why: string) => WrongTool): string {
  const { type } = schema as JsonSchema
  if (type !== undefined && type !== 'object') throw wrong(`input: want the schema of an object, got that of ${shown(type)}`)
  try {
    return JSON.stringify(schema)
  } catch (error) {
    throw wrong(`input: it cannot be written as JSON: ${(error as Error).message.split('\n', 1)[0]}`)
  }
}

/** What a validator finds fault with in arguments; undefined where there is nothing, or no validator. */
export async function faultOf(schema: unknown, given: unknown): Promise<Error | undefined> {
  if (typeof schema !== 'object' || schema === null || !('~standard' in schema)) return undefined
  return validated((schema as StandardSchema)['~standard'], given).then(() => undefined, (error: unknown) => error as Error)
}

async function validated(standard: StandardSchema['~standard'], given: unknown): Promise<unknown> {
  const outcome = await standard.validate(given)
  if (outcome.issues === undefined) return outcome.value
  throw new TypeError(outcome.issues.map((issue) => `${pathOf(issue)}${issue.message}`).join('; '))
}

function pathOf({ path = [] }: Issue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.length > 0 ? `${keys.join('.')}: ` : ''
}
