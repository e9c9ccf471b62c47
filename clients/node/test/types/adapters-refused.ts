// What it may not.
import type { Sidecall } from '@sidecall/client'
import * as anthropic from '@sidecall/client/anthropic'
import * as agents from '@sidecall/client/openai-agents'
import * as vercel from '@sidecall/client/vercel'

declare const sidecall: Sidecall

void vercel.tools(sidecall) // wrong
void vercel.tools(sidecall, {}) // wrong
void anthropic.tools(sidecall, { promptId: 'p' }) // wrong
void anthropic.tools(sidecall, { conversationId: 'c', promtId: 'p' }) // wrong
void agents.tools(sidecall, { tokensUsed: 1 }) // wrong
void agents.tools({}, { conversationId: 'c' }) // wrong
