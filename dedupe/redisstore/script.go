package redisstore

import (
	"crypto/sha1" //nolint:gosec // how Redis names a script, no secret
	_ "embed"
	"encoding/hex"
)

var (
	//go:embed step.lua
	stepSource string
	//go:embed transcript.lua
	transcriptSource string

	stepScript       = newScript(stepSource)
	transcriptScript = newScript(transcriptSource)
)

// script is a Lua script. It is called by its hash; a server that does not know
// it yet gets the source.
type script struct{ source, hash string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &script{source: source, hash: hex.EncodeToString(sum[:])}
}

// call makes the command that runs the script.
func (s *script) call(keys []string, args ...any) []any {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "evalsha", s.hash, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	return append(words, args...)
}

// withSource makes the command that a server understands which has never seen
// the script.
func (s *script) withSource(call []any) []any {
	words := append([]any(nil), call...)
	words[0], words[1] = "eval", s.source
	return words
}
