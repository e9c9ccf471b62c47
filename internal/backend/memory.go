package backend

// Uncounted is what a reply may hold that it has not asked for, in bytes: most replies
// ask for none.
const Uncounted = 16 << 10

// Memory is what there is for replies, of all calls together.
type Memory interface {
	// Take takes n bytes more of a reply, until the call has ended; false
	// when there is none. It never waits.
	Take(n int64) bool
}

// Fits takes memory for a reply that grows from one size to another, in bytes. What
// does not fit is not kept: the reply is cut there. A nil Memory is without a bound.
func Fits(memory Memory, from, to int64) bool {
	from, to = max(from, Uncounted), max(to, Uncounted)
	return memory == nil || from >= to || memory.Take(to-from)
}
