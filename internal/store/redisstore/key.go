package redisstore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// appendKey appends a key: the prefix, its kind, and its parts, behind a shard if it is in one:
//
//	sidecall:{103}/tenant/conversation/turn/id         the record of a call
//	sidecall:budget/{103}/tenant/conversation/prompt   a tally
//	sidecall:effect/{103}/tenant/conversation/hash     who holds an effect
//	sidecall:effect/tenant/hash                        who holds a whole tenant's
//	sidecall:log/{103}/tenant/conversation/name        a log
//	sidecall:conversation/{103}/tenant/conversation    the head of a conversation
//	sidecall:messages/{103}/tenant/conversation        the list of its messages
//	sidecall:find/{103}/tenant/24h/20783               calls by their terms (index.go)
//	sidecall:output/tenant/ref                         a kept output
//	sidecall:instance/name                             the tenure of an instance
//
// What is in braces decides the slot in a Redis Cluster, so that all keys of a conversation
// share one. A part is escaped, so that it never contains a slash or a brace; no two keys are
// alike.
func appendKey(b []byte, prefix, kind string, in shard, parts ...string) []byte {
	b = append(append(b, prefix...), kind...)
	if in != nowhere {
		b = append(b, '{', '0'+byte(in>>4), '0'+byte(in>>2&3), '0'+byte(in&3), '}', '/')
	}
	for i, part := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = append(b, url.QueryEscape(part)...)
	}
	return b
}

// shard is one of so many parts of all conversations. Who looks for calls has to ask each, so
// there are few. It is written to the base 4: 000 to 333 are spread over the slots of a Cluster
// evenly, each in another 64th of them.
type shard int

const (
	shards        = 64
	nowhere shard = -1 // is that of a key which is in none
)

// shardOf is the shard of a conversation, or of something else that has these parts: their
// FNV-1a hash.
func shardOf(parts ...string) shard {
	hash := uint32(2166136261)
	for _, part := range parts {
		for i := range len(part) {
			hash = (hash ^ uint32(part[i])) * 16777619
		}
		hash *= 16777619 // what is in one part is not in the next
	}
	return shard(hash >> 26)
}

// shardOfCall is that of its conversation. Calls without one have nothing to share, and are
// spread by their own ids.
func shardOfCall(k *tool.CallID) shard {
	if k.Conversation == "" {
		return shardOf(k.Tenant, k.Turn, k.ID)
	}
	return shardOf(k.Tenant, k.Conversation)
}

// RecordKey is the key of the record of a call, for whoever looks at it in Redis.
func RecordKey(prefix string, k tool.CallID) string {
	var buffer [128]byte
	return string(appendKey(buffer[:0], prefix, "", shardOfCall(&k), k.Tenant, k.Conversation, k.Turn, k.ID))
}

// callOf reads whose record it is that has a key with these parts.
func callOf(parts string) (tool.CallID, error) {
	all := strings.Split(parts, "/")
	ok := len(all) == 4
	for i := range all {
		part, err := url.QueryUnescape(all[i])
		all[i], ok = part, ok && err == nil
	}
	if !ok {
		return tool.CallID{}, fmt.Errorf("%w: %q is no key of a record", dedupe.ErrCorrupt, parts)
	}
	return tool.CallID{Tenant: all[0], Conversation: all[1], Turn: all[2], ID: all[3]}, nil
}
