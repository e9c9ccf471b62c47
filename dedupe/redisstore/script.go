package redisstore

import (
	"crypto/sha1" //nolint:gosec // how Redis names a script, no secret
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
)

var (
	//go:embed record.lua
	recordSource string
	//go:embed succeeds.lua
	succeedsSource string
	//go:embed admit.lua
	admitSource string
	//go:embed tally.lua
	tallySource string
	//go:embed draw.lua
	drawSource string
	//go:embed log.lua
	logSource string
	//go:embed several.lua
	severalSource string
	//go:embed read.lua
	readSource string
	//go:embed request.lua
	requestSource string
	//go:embed settlement.lua
	settlementSource string
	//go:embed notice.lua
	noticeSource string
	//go:embed restoration.lua
	restorationSource string
	//go:embed effect.lua
	effectSource string
	//go:embed contend.lua
	contendSource string
	//go:embed note.lua
	noteSource string
	//go:embed settle.lua
	settleSource string
	//go:embed renew.lua
	renewSource string
	//go:embed restore.lua
	restoreSource string
	//go:embed lookup.lua
	lookupSource string
	//go:embed output.lua
	outputSource string
	//go:embed tenure.lua
	tenureSource string
	//go:embed converse.lua
	converseSource string
	//go:embed transcript.lua
	transcriptSource string

	// onRecord is what every script on a record begins with.
	onRecord = fmt.Sprintf("local OLDEST, VERSION = %d, %d\n", dedupe.OldestLayout, dedupe.LayoutVersion) + recordSource

	admitScript   = newScript(onRecord + requestSource + succeedsSource + tallySource + drawSource + severalSource + readSource + effectSource + contendSource + admitSource)
	settleScript  = newScript(onRecord + settlementSource + tallySource + logSource + effectSource + settleSource)
	renewScript   = newScript(onRecord + renewSource)
	restoreScript = newScript(onRecord + restorationSource + tallySource + effectSource + restoreSource)
	noteScript    = newScript(onRecord + noticeSource + tallySource + logSource + readSource + noteSource)
	lookupScript  = newScript(onRecord + lookupSource)
	outputScript  = newScript(outputSource)
	tenureScript  = newScript(tenureSource)

	converseScript   = newScript(converseSource)
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
