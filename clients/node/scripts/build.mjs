/**
 * Makes dist/ of src/ and proto/: the package as ESM and as CommonJS, with types. It does
 * nothing when dist/ is made of what is there now, and what is there stays whole until the
 * new one is. Where there is no compiler, as when npm installs this directory into another
 * project, it is installed first.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const top = fileURLToPath(new URL('..', import.meta.url))
const dist = path.join(top, 'dist')
const at = (...parts) => path.join(top, ...parts)

/** The hash of everything that decides what comes out. */
function made() {
  const hash = createHash('sha256').update(process.version.split('.')[0])
  const inputs = ['package-lock.json', 'package.json', 'tsconfig.json', 'tsconfig.cjs.json']
  for (const dir of ['proto', 'scripts', 'src']) {
    const files = readdirSync(at(dir), { recursive: true, withFileTypes: true }).filter((e) => e.isFile())
    inputs.push(...files.map((e) => path.relative(top, path.join(e.parentPath ?? e.path, e.name))))
  }
  for (const name of inputs.filter((name) => !name.includes('generated')).sort()) {
    hash.update(`${name}\0`).update(readFileSync(at(name))).update('\0')
  }
  return hash.digest('hex')
}

const stamp = made()
if (!isMade()) build()

function isMade() {
  const file = path.join(dist, '.stamp')
  return existsSync(file) && readFileSync(file, 'utf8') === stamp
}

function build() {
  compilerInstalled()
  const out = at(`dist.${process.pid}`)
  try {
    execFileSync(process.execPath, [at('scripts', 'generate.mjs')], { cwd: top, stdio: ['ignore', 'inherit', 'inherit'] })
    const tsc = path.join(path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
    for (const [form, config] of [['esm', 'tsconfig.json'], ['cjs', 'tsconfig.cjs.json']]) {
      execFileSync(process.execPath, [tsc, '-p', config, '--outDir', path.join(out, form)], { cwd: top, stdio: ['ignore', 2, 2] })
    }
    writeFileSync(path.join(out, 'cjs', 'package.json'), '{"type": "commonjs"}\n')
    writeFileSync(path.join(out, '.stamp'), stamp)
    if (isMade()) return // by another that ran at the same time
    rmSync(dist, { recursive: true, force: true })
    renameSync(out, dist)
  } catch (error) {
    if (!isMade()) throw error
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
}

function compilerInstalled() {
  if (existsSync(at('node_modules', 'typescript')) && existsSync(at('node_modules', 'protobufjs'))) return
  // One that is a link is shared with others, who need it as it is.
  if (lstatSync(at('node_modules'), { throwIfNoEntry: false })?.isSymbolicLink()) unlinkSync(at('node_modules'))
  // What npm is doing now is none of this one's business: that is about another project.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_config_(?!cache$|registry$|userconfig$|.*proxy$)|^npm_(package|lifecycle|command)/i.test(name)))
  const npm = process.env.npm_execpath ? [process.execPath, [process.env.npm_execpath]] : ['npm', []]
  execFileSync(npm[0], [...npm[1], 'ci', '--ignore-scripts', '--include=dev', '--no-fund', '--no-audit', '--loglevel=error'], {
    cwd: top, env, stdio: ['ignore', 2, 2],
  })
}
