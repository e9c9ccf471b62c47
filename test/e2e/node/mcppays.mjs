// What the MCP clients of the official SDKs do: pay twice under one id, and make what mistakes there are.

const named = (id) => ({ 'dev.sidecall/toolUseId': id, 'dev.sidecall/conversationId': 'c-1' })
const told = (result) => ({
  text: result.content.filter((block) => block.type === 'text').map((block) => block.text).join(''),
  is_error: result.isError ?? false,
  structured: result.structuredContent ?? null,
  replayed: result._meta?.['dev.sidecall/replayed'] ?? false,
})

// pays prints a line of JSON: what a client saw. asked are the questions that its user was asked.
export async function pays(client, revision, asked) {
  const call = (name, args, id) => client.callTool({ name, arguments: args, _meta: named(id) })
  const said = { revision }
  said.tools = (await client.listTools()).tools.map((tool) => tool.name).sort()
  said.paid = told(await call('pay', { cents: 5 }, 't-1'))
  said.again = told(await call('pay', { cents: 5 }, 't-1'))
  said.wrong = told(await call('pay', { cents: 'many' }, 't-2'))
  said.held = told(await call('pay', { cents: 500 }, 't-3'))
  said.asked = asked
  try {
    await call('pya', {}, 't-4')
  } catch (error) {
    said.unknown = { code: error.code, data: error.data }
  }
  console.log(JSON.stringify(said))
}
