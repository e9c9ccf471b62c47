/** What a framework shows of a result to its model, which has words and pictures of its own for it. */
import type { ExecuteToolResponse } from '../generated/messages.js'

const pictureTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const

type PictureType = (typeof pictureTypes)[number]

export const isPicture = (type: string): type is PictureType => pictureTypes.includes(type as PictureType)

/** A document too may stand in a tool_result. */
export const isShownByAnthropic = (type: string): type is PictureType | 'application/pdf' => isPicture(type) || type === 'application/pdf'

/** All that a result has in words: its content word for word, then what was tried before it, what is to be noticed, and
 * blocks that are text or cannot be shown. */
export function texts(result: ExecuteToolResponse, isShown: (type: string) => boolean): string[] {
  const words = [result.content, result.recovery?.context ?? '', ...result.notices]
  for (const block of result.blocks) {
    if (block.data.length > 0 && isShown(block.mimeType)) continue
    if (block.text) words.push(block.uri ? `${block.uri}\n${block.text}` : block.text)
    else if (block.type === 'resource_link') words.push(`${block.name} ${block.uri}`.trim())
    // Of one with a handle the notices speak.
    else if (!block.outputRef) words.push(`(${block.type} of ${block.mimeType || 'unknown type'}, ${block.size} bytes: it cannot be shown here)`)
  }
  return words.filter((word) => word !== '')
}

/** The blocks of a result that can be shown, as base64. */
export function pictures<T extends string>(result: ExecuteToolResponse, isShown: (type: string) => type is T): { type: T; data: string }[] {
  return result.blocks.flatMap(({ data, mimeType }) => (data.length > 0 && isShown(mimeType) ? [{ type: mimeType, data: data.toString('base64') }] : []))
}
