// A person at the console, in a real browser: searches, reads the verdict, resolves what is unknown,
// allows what is held; by the keyboard, without scripts, on a phone, in the dark.
//
//   node console.mjs URL [DIR]    DIR gets pictures of the pages
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const [url, pictures] = process.argv.slice(2)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})

const complaints = []

/** A browser of its own, in which whatever a page complains of is kept. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options })
  const page = await context.newPage()
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()) })
  return page
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true })
}

const verdict = (page) => page.locator('.answer .verdict').innerText()

/** No page is wider than its window. */
async function fits(page) {
  const { wide, window, by } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth, window: innerWidth,
    by: [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth || e.scrollWidth > innerWidth).map((e) => e.outerHTML.slice(0, 200)),
  }))
  assert.ok(wide <= window, `${page.url()} is ${wide} wide in a window of ${window}, by ${by.join('\n')}`)
}

async function search(page, text) {
  await page.getByRole('searchbox').fill(text)
  await Promise.all([page.waitForEvent('framenavigated'), page.keyboard.press('Enter')])
  await page.waitForLoadState()
}

try {
  // Without the token nothing is shown.
  const stranger = await open()
  assert.equal((await stranger.goto(new URL('/', url).href)).status(), 401)
  await stranger.context().close()
  complaints.length = 0 // the browser's own, of that

  const page = await open()
  await page.goto(url)
  assert.ok(!page.url().includes('token'), 'the token stays in the address')
  await picture(page, 'console-home')

  // The search box has the focus: typed, and Enter.
  await page.waitForFunction(() => document.activeElement?.matches('[type=search], [role=searchbox]'))
  await page.keyboard.type('order_id=A-77')
  await Promise.all([page.waitForURL('**/find?**'), page.keyboard.press('Enter')]) // until all of it is there
  await page.getByRole('heading', { name: 'Found' }).waitFor()
  await picture(page, 'console-found')
  assert.deepEqual((await page.locator('.calls .verdict').allInnerTexts()).sort(), ['RAN', 'UNKNOWN'], `${page.url()}: ${await page.locator('main').innerText()}`)
  await search(page, 'A-77') // by whatever argument
  assert.equal(await page.locator('.calls .verdict').count(), 2)
  await search(page, 'order_id=A-99')
  assert.match(await page.locator('main').innerText(), /NEVER SEEN/)
  await search(page, 'customer=9')
  assert.match(await page.locator('main').innerText(), /order_id/)

  // Search, verdict, resolve.
  await search(page, 'toolu_lost')
  assert.equal(await verdict(page), 'UNKNOWN')
  await picture(page, 'console-call')
  await page.getByLabel('It has happened.').check()
  await page.getByLabel('How do you know?').fill('it is in the ledger <b>')
  await page.getByRole('button', { name: 'Resolve' }).click()
  await page.getByRole('status').waitFor()
  assert.equal(await verdict(page), 'RAN')
  assert.match(await page.locator('main').innerText(), /ada.*it is in the ledger <b>/s)

  // What waits is allowed; a page that was open then cannot decide it anew.
  const late = await open()
  await late.goto(url)
  await search(late, 'toolu_held')
  await search(page, 'toolu_held')
  assert.equal(await verdict(page), 'HELD')
  assert.match(await page.locator('main').innerText(), /"cents":5000/)
  await picture(page, 'console-held')
  await page.getByLabel('Why?').fill('checked with the customer')
  await page.getByRole('button', { name: 'Allow' }).click()
  await page.getByRole('status').waitFor()
  assert.match(await page.locator('.answer').innerText(), /a person has allowed it/i)

  // The conversation and its first error that was not recovered from.
  await page.getByRole('link', { name: 'c1', exact: true }).click()
  await page.locator('#first').waitFor()
  await picture(page, 'console-conversation')
  await page.getByRole('link', { name: 'Tools' }).click()
  assert.match(await page.locator('main').innerText(), /non_idempotent/)
  await picture(page, 'console-tools')

  // By the keyboard alone: the first stop leads past the navigation.
  await page.goto(new URL('tools', url).href)
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip')

  // A page follows what changes, and does not take away what is being written.
  await page.goto(new URL('./', url).href)
  console.log('ready for another call')
  await page.getByText('toolu_more').waitFor()

  // On a phone, in the dark, and without scripts.
  const phone = await open({ viewport: { width: 360, height: 740 }, colorScheme: 'dark', javaScriptEnabled: false })
  await phone.goto(url)
  await phone.getByRole('searchbox').fill('toolu_ran')
  await phone.getByRole('button', { name: 'Find' }).click()
  assert.equal(await verdict(phone), 'RAN')
  await picture(phone, 'console-phone')
  const long = 'w'.repeat(200)
  const call = (tool) => `find?q=${tool}${long}`
  for (const path of ['./', 'tools', 'find?q=order_id%3DA-77', `find?q=order_id%3D${long}`, `find?q=${long}%3DA-77`, 'find?q=toolu_ran', call('refund'), call('charge'), call('t'.repeat(64)), 'conversation?id=c1', `conversation?id=${long}`]) {
    const shown = await open({ viewport: { width: 360, height: 740 } })
    await shown.goto(url)
    await shown.goto(new URL(path, url).href)
    await fits(shown)
  }
  assert.deepEqual(complaints, [])
  console.log('done')
} finally {
  await browser.close()
}
