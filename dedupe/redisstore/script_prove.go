//go:build prove

package redisstore

// ScriptHashes are the names under which a server knows the scripts that claim a call and
// that settle it, for proofs that lose their replies.
func ScriptHashes() (claims, settles string) { return admitScript.hash, settleScript.hash }
