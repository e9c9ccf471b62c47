// What a program may not write: each line that says so has to be an error under --strict.
import { Sidecall, type ExecuteToolResponse } from '@sidecall/client'
import { z } from 'zod'

declare const sidecall: Sidecall
declare const result: ExecuteToolResponse
declare const message: { id: string; type: 'message'; role: 'assistant'; stop_reason: string | null; content: object[] }

sidecall.runTools(message, { conversationID: 'c' }) // wrong
sidecall.runTools(message, { conversationId: {} }) // wrong
sidecall.runTools(message, {}) // wrong
sidecall.runTools(message) // wrong
sidecall.executeTool({ toolUseId: '1', toolName: 't' }) // wrong
sidecall.executeTools([{ toolUseId: '1', toolName: 't' }], { turnId: 1 }) // wrong
sidecall.executeTool({ toolName: 't', conversationId: 'c' }) // wrong
sidecall.executeTool({ toolUseId: '1', toolName: 't', conversationId: 'c', argumentsJson: { a: 1 } }) // wrong
sidecall.executeTool({ toolUseId: '1', toolName: 't' }, { conversationId: 'c', timeout: 5 }) // wrong
sidecall.executeTool({ toolUseId: '1', toolName: 't' }, { conversationId: 'c' }, { timeout: 5 }) // wrong
sidecall.runLoop(() => message, []) // wrong
sidecall.runLoop(() => message, [], { promptId: 'p' }) // wrong
sidecall.runLoop(() => message, [], { conversationId: 'c', turnId: 1 }) // wrong
sidecall.runLoop(() => message, [], { keep: 'c' }) // wrong
sidecall.conversation('c', 'gemini') // wrong
sidecall.conversation('c', 'openai').then((kept) => kept.resume({ turnId: 1 })) // wrong
sidecall.tools('gemini') // wrong
Sidecall.launch(7) // wrong
Sidecall.launch({}, { binry: 'x' }) // wrong
console.log(result.error.code) // wrong
console.log(result.outcome === 'OK') // wrong
console.log(result.is_error) // wrong
export const answers: Promise<{ role: 'tool' }[]> = sidecall.runTools(message, {}) // wrong
sidecall.tool({ name: 't', effect: 'none' }, () => 1) // wrong
sidecall.tool({ description: 'D.' }, () => 1) // wrong
sidecall.tool({ name: 't', input: z.object({ a: z.string() }) }, ({ b }) => b) // wrong
sidecall.work({ places: 3 }) // wrong
