package redisstore

import (
	"encoding/base64"

	"github.com/sidecall/sidecall/dedupe"
)

// recordKey is the key of a call's record:
//
//	sidecall:{tenant/conversation}/turn/id
//
// What is in braces decides the slot in a Redis Cluster, so that all keys of a
// conversation share one. Calls without a conversation have nothing to share
// and are spread by their own id: sidecall:{tenant//turn/id}. A component is
// written so that it never contains a slash or a brace; no two keys are alike.
func recordKey(prefix string, k dedupe.Key) string {
	b := make([]byte, 0, len(prefix)+len(k.Tenant)+len(k.Conversation)+len(k.Turn)+len(k.ID)+8)
	b = append(append(b, prefix...), '{')
	b = append(appendComponent(b, k.Tenant), '/')
	if k.Conversation == "" {
		b = append(b, '/')
		b = append(appendComponent(b, k.Turn), '/')
		return string(append(appendComponent(b, k.ID), '}'))
	}
	b = append(appendComponent(b, k.Conversation), '}', '/')
	b = append(appendComponent(b, k.Turn), '/')
	return string(appendComponent(b, k.ID))
}

// outputKey is the key of a kept output. A reader knows no more than tenant and
// ref, so it cannot share the slot of its conversation.
func outputKey(prefix, tenant, ref string) string {
	b := make([]byte, 0, len(prefix)+len("output/")+len(tenant)+len(ref)+4)
	b = append(append(b, prefix...), "output/"...)
	b = append(appendComponent(b, tenant), '/')
	return string(appendComponent(b, ref))
}

// sheetKey is the key of what a conversation keeps beside its records: a tally
// (kind "budget/") or a log ("log/"), each a key that no record has, in the slot of
// the conversation:
//
//	sidecall:budget/{tenant/conversation}/prompt
//	sidecall:log/{tenant/conversation}/name
func sheetKey(prefix, kind string, k dedupe.Key, name string) string {
	b := make([]byte, 0, len(prefix)+len(kind)+len(k.Tenant)+len(k.Conversation)+len(name)+8)
	b = append(append(append(b, prefix...), kind...), '{')
	b = append(appendComponent(b, k.Tenant), '/')
	b = append(appendComponent(b, k.Conversation), '}', '/')
	return string(appendComponent(b, name))
}

// effectKey is the key of who holds an effect, in the slot of the conversation or,
// when it is the whole tenant's, in one of its own:
//
//	sidecall:effect/{tenant/conversation}/hash
//	sidecall:effect/{tenant}/hash
func effectKey(prefix string, k dedupe.Key, e *dedupe.EffectKey) string {
	hash := base64.RawURLEncoding.EncodeToString(e.Print[:])
	if !e.WholeTenant {
		return sheetKey(prefix, "effect/", k, hash)
	}
	return string(appendComponent([]byte(prefix+"effect/{"), k.Tenant)) + "}/" + hash
}

// appendComponent appends any bytes as letters, digits and -_.~:, and as %XX
// where it is something else.
func appendComponent(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

var plain = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~:") {
		t[c] = true
	}
	return t
}()
